//! The operations for which no library is loaded, in CUDA C, compiled when a GPU is opened.

use cudarc::nvrtc::{CompileOptions, Ptx, compile_ptx_with_opts};

/// A direct convolution of eight channels, three by three; a step of a bitonic sort; a product of sparse rows and a dense
/// matrix of 32 columns; and numbers to start from.
const SOURCE: &str = r#"
extern "C" __global__ void fill(float* out, unsigned long long count, unsigned int seed) {
    unsigned long long at = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (at >= count) return;
    unsigned int x = (unsigned int)at * 747796405u + seed;
    x = ((x >> ((x >> 28) + 4)) ^ x) * 277803737u;
    x = (x >> 22) ^ x;
    out[at] = (float)x * 2.3283064e-10f;
}

extern "C" __global__ void convolve(const float* image, const float* kernel, float* out, int edge) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    __shared__ float weights[8 * 8 * 9];
    int lane = threadIdx.y * blockDim.x + threadIdx.x;
    for (int i = lane; i < 8 * 8 * 9; i += blockDim.x * blockDim.y) weights[i] = kernel[i];
    __syncthreads();
    if (x >= edge || y >= edge) return;
    float sums[8] = {0};
    long long plane = (long long)edge * edge;
    for (int in = 0; in < 8; in++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                int sx = x + dx, sy = y + dy;
                if (sx < 0 || sy < 0 || sx >= edge || sy >= edge) continue;
                float value = image[in * plane + (long long)sy * edge + sx];
                int tap = (dy + 1) * 3 + dx + 1;
                for (int o = 0; o < 8; o++) sums[o] += value * weights[(o * 8 + in) * 9 + tap];
            }
    for (int o = 0; o < 8; o++) out[o * plane + (long long)y * edge + x] = sums[o];
}

extern "C" __global__ void bitonic(float* values, unsigned int j, unsigned int k) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int other = i ^ j;
    if (other <= i) return;
    float a = values[i], b = values[other];
    bool up = (i & k) == 0;
    if ((a > b) == up) { values[i] = b; values[other] = a; }
}

extern "C" __global__ void sparse(const unsigned int* places, const float* entries, const float* dense, float* out,
                                  int rows, int each) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    int column = threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int i = 0; i < each; i++) {
        long long at = (long long)row * each + i;
        sum += entries[at] * dense[(long long)places[at] * 32 + column];
    }
    out[(long long)row * 32 + column] = sum;
}
"#;

/// For a GPU of this compute capability.
pub fn compile((major, minor): (i32, i32)) -> Result<Ptx, String> {
    let options = CompileOptions {
        options: vec![format!("--gpu-architecture=compute_{major}{minor}")],
        ..CompileOptions::default()
    };
    compile_ptx_with_opts(SOURCE, options).map_err(|error| error.to_string())
}
