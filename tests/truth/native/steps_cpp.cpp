// SPDX-License-Identifier: Apache-2.0
// Steps in C++: virtual calls, lambdas, templates, and the life of an exception.
#include <algorithm>
#include <functional>

#include "tests/truth/native/walk.h"

namespace kitchen
{

struct Cook {
	virtual ~Cook() = default;
	virtual NOINLINE void stir(struct walk *walk) = 0;
};

struct Baker : Cook {
	NOINLINE void stir(struct walk *walk) override
	{
		GO_ON(walk);
	}
};

template <typename Spice> struct Pot {
	Spice spice;
	NOINLINE void simmer(struct walk *walk)
	{
		volatile Spice kept = spice;
		GO_ON(walk);
		spice = kept;
	}
};

static NOINLINE void step_virtual(struct walk *walk)
{
	static Baker baker;
	static Cook *volatile cook = &baker;

	cook->stir(walk);
	KEEP_FRAME();
}

static NOINLINE void step_template(struct walk *walk)
{
	Pot<double> pot = { 1.5 };

	pot.simmer(walk);
	walk->sink = static_cast<uint64_t>(pot.spice);
}

static NOINLINE void step_lambda(struct walk *walk)
{
	auto taste = [walk]() __attribute__((noinline))
	{
		GO_ON(walk);
	};

	taste();
	KEEP_FRAME();
}

static NOINLINE void throw_plate(struct walk *walk)
{
	if (walk->at >= 0)
		throw walk->at;
}

static NOINLINE void step_catch(struct walk *walk)
{
	try {
		throw_plate(walk);
	} catch (int) {
		GO_ON(walk);
	}
}

struct Apron {
	struct walk *walk;
	NOINLINE ~Apron() noexcept(false);
};

NOINLINE Apron::~Apron() noexcept(false)
{
	GO_ON(walk);
}

// The rest of the chain runs in a destructor while an exception is on its way.
static NOINLINE void wear_apron(struct walk *walk)
{
	Apron apron = { walk };

	throw_plate(walk);
}

static NOINLINE void step_unwinding(struct walk *walk)
{
	try {
		wear_apron(walk);
	} catch (int) {
		walk->sink++;
	}
}

} // namespace kitchen

const struct step cpp_steps[] = {
	{ kitchen::step_virtual, "kitchen::step_virtual kitchen::Baker::stir" },
	{ kitchen::step_template, "kitchen::step_template kitchen::Pot<double>::simmer" },
	{ kitchen::step_lambda, "kitchen::step_lambda /kitchen::step_lambda.*::operator/" },
	{ kitchen::step_catch, "kitchen::step_catch" },
	{ kitchen::step_unwinding,
	  "kitchen::step_unwinding kitchen::wear_apron ~? kitchen::Apron::~Apron" },
};
const size_t cpp_step_count = sizeof(cpp_steps) / sizeof(cpp_steps[0]);
