// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/demangle.h"

#include <stdlib.h>

#include "base/clock.h"
#include "tests/test.h"

static const struct {
	const char *what;
	const char *mangled;
	const char *name;
} cases[] = {
	{ "C", "qsort", "qsort" },
	{ "version", "memcpy@GLIBC_2.2.5", "memcpy" },
	{ "default version", "memcpy@@GLIBC_2.14", "memcpy" },
	{ "C++", "_ZNSt6vectorIiSaIiEE9push_backERKi",
	  "std::vector<int, std::allocator<int> >::push_back" },
	{ "C++ with version", "_ZNSo5flushEv@@GLIBCXX_3.4", "std::ostream::flush" },
	{ "C++ clone", "_ZN1a1bEv.cold", "a::b" },
	{ "C++ conversion", "_ZNK1AcvbEv", "A::operator bool" },
	{ "C++ with pack", "_ZNSt6vectorIiSaIiEE12emplace_backIJiEEERiDpOT_",
	  "std::vector<int, std::allocator<int> >::emplace_back<int>" },
	{ "C++ whose names spell the letters of packs",
	  "_ZN3c104impl28wrap_kernel_functor_unboxed_INS0_6detail24WrapFunctionIntoFunctor_INS_"
	  "26CompileTimeFunctionPointerIFN2at6TensorERKS6_S8_S8_RKNS_6ScalarESB_EXadL_ZNS5_12_"
	  "GLOBAL__N_117wrapper_CPU_addmmES8_S8_S8_SB_SB_EEEES6_NS_4guts8typelist8typelistIJS8_S8_"
	  "S8_SB_SB_EEEEESC_E4callEPNS_14OperatorKernelENS_14DispatchKeySetES8_S8_S8_SB_SB_",
	  "c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::WrapFunctionIntoFunctor_<c10:"
	  ":CompileTimeFunctionPointer<at::Tensor (at::Tensor const&, at::Tensor const&, "
	  "at::Tensor const&, c10::Scalar const&, c10::Scalar const&), &at::(anonymous "
	  "namespace)::wrapper_CPU_addmm>, at::Tensor, c10::guts::typelist::typelist<at::Tensor "
	  "const&, at::Tensor const&, at::Tensor const&, c10::Scalar const&, c10::Scalar const&> "
	  ">, at::Tensor (at::Tensor const&, at::Tensor const&, at::Tensor const&, c10::Scalar "
	  "const&, c10::Scalar const&)>::call" },
	{ "Rust, older", "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
	  "core::fmt::Formatter::pad" },
	{ "Rust", "_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar" },
	{ "Rust closure", "_RNCNvCs1234_7mycrate3foo0B3_", "mycrate::foo::{closure#0}" },
	{ "Rust generic", "_RINvCs1234_7mycrate3fooRNtB2_3BarKj3_E",
	  "mycrate::foo::<&mycrate::Bar, 3>" },
	{ "Rust trait method", "_RNvXs_Cs1234_7mycrateNtB4_3FooNtB4_3Bar3baz",
	  "<mycrate::Foo as mycrate::Bar>::baz" },
	{ "Rust function type", "_RINvC1a1bFG_KCRL0_hEuE",
	  "a::b::<for<'a> extern \"C\" fn(&'a u8)>" },
	{ "Rust dyn", "_RINvC1a1bDNvC1c1dp1eyEL_E", "a::b::<dyn c::d<e = u64>>" },
	{ "Rust made by a linker", "_RNvC1a1b.llvm.123", "a::b" },
	{ "only the prefix", "_Z", "_Z" },
	{ "only Rust's prefix", "_R", "_R" },
	{ "cut short", "_ZNSt6vector", "_ZNSt6vector" },
	{ "Rust cut short", "_RNvC7mycr", "_RNvC7mycr" },
	{ "Rust, reference to itself", "_RNvB_1a", "_RNvB_1a" },
	{ "Rust, reference forward", "_RNvBz_1a", "_RNvBz_1a" },
	{ "Rust, length past the end", "_RNvC99999999999999999999a1b",
	  "_RNvC99999999999999999999a1b" },
	{ "Rust, lifetimes without number", "_RINvC1a1bFGzzzzzzz_EuE", "_RINvC1a1bFGzzzzzzz_EuE" },
	{ "Rust, later encoding", "_R2NvC1a1b", "_R2NvC1a1b" },
	{ "version alone", "@@V", "@@V" },
	{ "not text", "a\xff\nb", "a??b" },
	{ "empty", "", "" },
};

TEST(demangles_rust_and_cpp)
{
	for EACH (row, cases) {
		char name[DEMANGLED_BYTES_MAX];

		demangle(row->mangled, name);
		EXPECT_STR(row->name, name, row->what);
	}
}

/* The @number-th substitution of the Itanium ABI: S_, S0_ ... */
static size_t put_substitution(char *at, unsigned number)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	if (number == 0)
		return (size_t)sprintf(at, "S_");
	number--;
	return number < 36
		       ? (size_t)sprintf(at, "S%c_", digits[number])
		       : (size_t)sprintf(at, "S%c%c_", digits[number / 36], digits[number % 36]);
}

/* Each argument names the one before it twice: 2^levels types when written out. */
static void make_doubling(char *name, const char *start, unsigned template, unsigned levels,
			  const char *end)
{
	name += sprintf(name, "%s", start);
	for (unsigned level = 0; level < levels; level++) {
		name += put_substitution(name, template);
		name += sprintf(name, "I");
		name += put_substitution(name, template + 1 + level);
		name += put_substitution(name, template + 1 + level);
		name += sprintf(name, "E");
	}
	sprintf(name, "%s", end);
}

static void repeat(char *name, const char *start, const char *part, unsigned count, const char *end)
{
	name += sprintf(name, "%s", start);
	while (count--)
		name += sprintf(name, "%s", part);
	sprintf(name, "%s", end);
}

static void check_time(const char *what, const char *mangled)
{
	uint64_t before = clock_process_cpu_ns();
	char name[DEMANGLED_BYTES_MAX];

	demangle(mangled, name);
	uint64_t spent = clock_process_cpu_ns() - before;
	if (spent > slower_ns(200 * NS_PER_MS))
		fail_msg("%s: took %llu ms", what, (unsigned long long)(spent / NS_PER_MS));
	assert_true(strlen(name) < DEMANGLED_BYTES_MAX);
}

TEST(bounds_expanding_names)
{
	static char name[1 << 16];

	make_doubling(name, "_Z1fI1AIiiE", 0, 60, "Evv");
	check_time("doubling", name);
	make_doubling(name, "_Z1fIDp1BI1AIiiE", 1, 60, "EEvv");
	check_time("doubling in a pack", name);
	repeat(name, "_ZN1A", "cvT_I", 60, "iEEv");
	check_time("conversions", name);
	repeat(name, "_ZN1A", "cvT_IN1A", 50, "EEEv");
	check_time("conversions in types", name);
	repeat(name, "_Z1f", "P", 2000, "i");
	check_time("pointers", name);
	repeat(name, "_Z", "N", 30000, "");
	check_time("nothing but names", name);
	repeat(name, "_RINvC1a1b", "T", 1000, "E");
	check_time("tuples", name);
	repeat(name, "_RINvC1a1bTTTTuuuuETB8_B8_B8_B8_ETBh_Bh_Bh_Bh_ETBu_Bu_Bu_Bu_ETBH_BH_BH_BH_E",
	       "", 0, "EE");
	check_time("references to references", name);
	repeat(name, "_RMC0T", "FGzzzzzz_Eu", 100, "E1a");
	check_time("lifetimes where nothing is written", name);
}

TEST(random_names_are_survived)
{
	static const char letters[] = "_RZNIJEKBLSTCXMYvsi01239aDpGF.";
	char mangled[200], name[DEMANGLED_BYTES_MAX];

	srand(5);
	for (int round = 0; round < 100000; round++) {
		size_t size = 2 + (size_t)rand() % (sizeof(mangled) - 3);

		mangled[0] = '_';
		mangled[1] = rand() % 2 ? 'R' : 'Z';
		for (size_t i = 2; i < size; i++)
			mangled[i] = letters[(size_t)rand() % (sizeof(letters) - 1)];
		mangled[size] = '\0';
		demangle(mangled, name);
	}
}

RUN_TESTS(cmocka_unit_test(demangles_rust_and_cpp), cmocka_unit_test(bounds_expanding_names),
	  cmocka_unit_test(random_names_are_survived))
