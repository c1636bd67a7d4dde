// Operand lists of wgmma, written once: a literal for the PTX side (registers %0..%7, %8..%15, ...,
// the first 4 of each, and 16 or 32 of them) and ACC4(d, i) to ACC32(d, i) for the C++ side.
#pragma once

// clang-format off
#define WGMMA_D_0_7 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_D_8_15 "%8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_D_16_23 "%16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_D_24_31 "%24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_D_32_39 "%32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_D_40_47 "%40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_D_48_55 "%48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_D_56_63 "%56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_D_64_71 "%64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_D_72_79 "%72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_D_80_87 "%80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_D_88_95 "%88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_D_96_103 "%96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_D_104_111 "%104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_D_112_119 "%112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_D_120_127 "%120, %121, %122, %123, %124, %125, %126, %127"

#define WGMMA_D_0_3 "%0, %1, %2, %3"
#define WGMMA_D_8_11 "%8, %9, %10, %11"
#define WGMMA_D_16_19 "%16, %17, %18, %19"
#define WGMMA_D_24_27 "%24, %25, %26, %27"
#define WGMMA_D_32_35 "%32, %33, %34, %35"
#define WGMMA_D_40_43 "%40, %41, %42, %43"
#define WGMMA_D_48_51 "%48, %49, %50, %51"
#define WGMMA_D_56_59 "%56, %57, %58, %59"
#define WGMMA_D_64_67 "%64, %65, %66, %67"
#define WGMMA_D_72_75 "%72, %73, %74, %75"
#define WGMMA_D_80_83 "%80, %81, %82, %83"
#define WGMMA_D_88_91 "%88, %89, %90, %91"
#define WGMMA_D_96_99 "%96, %97, %98, %99"
#define WGMMA_D_104_107 "%104, %105, %106, %107"
#define WGMMA_D_112_115 "%112, %113, %114, %115"
#define WGMMA_D_120_123 "%120, %121, %122, %123"

#define WGMMA_D_0_15 WGMMA_D_0_7 ", " WGMMA_D_8_15
#define WGMMA_D_16_31 WGMMA_D_16_23 ", " WGMMA_D_24_31
#define WGMMA_D_32_47 WGMMA_D_32_39 ", " WGMMA_D_40_47
#define WGMMA_D_48_63 WGMMA_D_48_55 ", " WGMMA_D_56_63
#define WGMMA_D_64_79 WGMMA_D_64_71 ", " WGMMA_D_72_79
#define WGMMA_D_80_95 WGMMA_D_80_87 ", " WGMMA_D_88_95
#define WGMMA_D_96_111 WGMMA_D_96_103 ", " WGMMA_D_104_111
#define WGMMA_D_112_127 WGMMA_D_112_119 ", " WGMMA_D_120_127

#define WGMMA_D_0_31 WGMMA_D_0_15 ", " WGMMA_D_16_31
#define WGMMA_D_32_63 WGMMA_D_32_47 ", " WGMMA_D_48_63
#define WGMMA_D_64_95 WGMMA_D_64_79 ", " WGMMA_D_80_95
#define WGMMA_D_96_127 WGMMA_D_96_111 ", " WGMMA_D_112_127

#define ACC4(d, i) \
  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define ACC8(d, i)                                                     \
  "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]),    \
  "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define ACC16(d, i) ACC8(d, i), ACC8(d, (i) + 8)
#define ACC32(d, i) ACC16(d, i), ACC16(d, (i) + 16)

// The same of 32-bit integers.
#define INT8(d, i)                                                     \
  "+r"(d[i]), "+r"(d[(i) + 1]), "+r"(d[(i) + 2]), "+r"(d[(i) + 3]),    \
  "+r"(d[(i) + 4]), "+r"(d[(i) + 5]), "+r"(d[(i) + 6]), "+r"(d[(i) + 7])
#define INT16(d, i) INT8(d, i), INT8(d, (i) + 8)
#define INT32(d, i) INT16(d, i), INT16(d, (i) + 16)
// clang-format on
