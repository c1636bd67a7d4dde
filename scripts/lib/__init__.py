"""What the scripts share; each piece stands here once, and nothing here imports a script.

What every script needs
    cli          exit codes, Problem, and how main() ends
    tools        programs of the CUDA toolkit, and the options of a stage program
    markdown     what stands in a page: fences, markers, tables
    svg          drawings
    closure      what can be come to, step by step
    figures/     the figures of the pages

What is measured
    registry     what build/ladder says: variants, kernels, choices
    rows         a rung's variant at a shape in a regime, and the selectors of such rows
    shape_lists  the shapes that have names
    measure      a measuring program that is run over rows until each has a result
    store        files of docs/results, and journals of what a run has measured so far
    results      what these files say, for tables
    tables/      the tables, one module for what they are of
    published    whether what is published is of the kernels of this tree

PTX
    ptx          functions, places in the source, instructions and edits of them
    fingerprints whether a kernel is still the one that a number belongs to
    replace      a program with other PTX in place of its own
    stamps       clock stamps and sleeps that are put into a kernel
    stamped      what such stamps say
    timeline     events, and the file that Perfetto reads; timeline_svg draws them
    mutations/   bugs to put into kernels, by what they are about
    maps         what build/maps says of layouts
"""
