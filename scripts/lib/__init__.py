"""What the scripts share; each piece stands here once. A script imports from here, never from another
script.

    cli          exit codes, Problem, and how main() ends
    registry     what build/ladder says: variants, kernels, choices
    shape_lists  the shapes that have names
    rows         what is measured: a rung's variant at a shape, and selectors of such rows
    store        files of docs/results, and journals of what a run has measured so far
    measure      a measuring program that is run over rows until each has a result
    markdown     what stands in a page: fences, markers, tables
    svg          drawings
"""
