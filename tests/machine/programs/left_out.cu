// Linked by -rdc=true with hello.cu, which was compiled for another architecture alone: what runs is
// hello's main, and its kernel is in no file that the machine can take.
__global__ void empty() {}
