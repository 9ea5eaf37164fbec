// SPDX-License-Identifier: Apache-2.0
// As burn_c, for names that need demangling: namespaces, a template's member, a lambda, an operator
// and an anonymous namespace, in random rounds. What each really used is printed at the end.
//
//   burn_cpp [--seconds S] [--seed X] [--round-ms M]

#include <vector>

#include "tests/workloads/truth.h"

namespace kitchen
{
namespace
{
NOINLINE uint64_t hidden_chop(uint64_t ns)
{
	return burn_ns(ns);
}
} // namespace

template <typename Ingredient> class Pot
{
      public:
	NOINLINE uint64_t stir(uint64_t ns)
	{
		return burn_ns(ns);
	}
};

struct Oven {
	NOINLINE uint64_t operator()(uint64_t ns) const
	{
		return burn_ns(ns);
	}
};

NOINLINE uint64_t season(const std::vector<uint64_t> &portions)
{
	const auto sprinkle = [](uint64_t ns) NOINLINE { return burn_ns(ns); };
	uint64_t used = 0;

	for (uint64_t ns : portions) {
		used += sprinkle(ns);
		KEEP_FRAME();
	}
	return used;
}

NOINLINE uint64_t chop(uint64_t ns)
{
	uint64_t used = hidden_chop(ns);

	KEEP_FRAME();
	return used;
}
} // namespace kitchen

int main(int argc, char **argv)
{
	struct random_source random = random_seeded(argc, argv);
	double seconds = option_number(argc, argv, "--seconds", 5);
	uint64_t round_ns =
		static_cast<uint64_t>(option_number(argc, argv, "--round-ms", 40) * 1e6);
	uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + static_cast<uint64_t>(seconds * 1e9);
	struct truth truths[] = {
		{ "kitchen::Pot<double>::stir", 0 },
		{ "kitchen::Oven::operator()", 0 },
		{ "kitchen::season", 0 },
		{ "kitchen::chop", 0 },
	};
	kitchen::Pot<double> pot;
	const kitchen::Oven oven;

	while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
		double choice = random_unit(&random);
		uint64_t ns = random_between(&random, round_ns / 4, round_ns * 7 / 4);

		if (choice < 0.4)
			truths[0].cpu_ns += pot.stir(ns);
		else if (choice < 0.7)
			truths[1].cpu_ns += oven(ns);
		else if (choice < 0.9)
			truths[2].cpu_ns += kitchen::season({ ns / 2, ns / 2 });
		else
			truths[3].cpu_ns += kitchen::chop(ns);
	}
	print_truth(truths, sizeof(truths) / sizeof(truths[0]));
	return 0;
}
