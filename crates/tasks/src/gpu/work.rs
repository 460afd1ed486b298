//! What can be timed.

use super::{Gpu, GpuError};
use cudarc::cublas::sys::cublasOperation_t::CUBLAS_OP_N;
use cudarc::cublas::{Gemm, GemmConfig, StridedBatchedConfig};
use cudarc::driver::{CudaSlice, LaunchConfig, PinnedHostSlice, PushKernelArg};
use half::bf16;
use std::time::Instant;

/// An operation on squares of an edge, or a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuWork {
    /// Matrix product of 32-bit floats, by cuBLAS.
    GemmF32,
    /// Matrix product of 16-bit brain floats, by cuBLAS.
    GemmBf16,
    /// Sixteen products of matrices of a quarter of the edge, by cuBLAS.
    BatchedGemm,
    /// Eight channels to eight, three by three.
    Convolution,
    /// `edge * edge` floats, padded to a power of two.
    Sort,
    /// One entry in a hundred, times 32 columns.
    Sparse,
    /// From one place on the GPU to another.
    Copy,
    /// `edge * edge` floats to the GPU, or from it; from pinned memory or not.
    Transfer {
        /// Whether to the GPU.
        to_gpu: bool,
        /// Whether the host's memory is pinned.
        pinned: bool,
    },
}

/// An operation whose data is in place.
pub struct Bench<'g> {
    gpu: &'g Gpu,
    held: Held,
}

enum Held {
    Gemm {
        a: CudaSlice<f32>,
        b: CudaSlice<f32>,
        c: CudaSlice<f32>,
        edge: i32,
        batch: i32,
    },
    GemmBf16 {
        a: CudaSlice<bf16>,
        b: CudaSlice<bf16>,
        c: CudaSlice<bf16>,
        edge: i32,
    },
    Convolution {
        image: CudaSlice<f32>,
        kernel: CudaSlice<f32>,
        out: CudaSlice<f32>,
        edge: i32,
    },
    Sort {
        values: CudaSlice<f32>,
        count: u32,
    },
    Sparse {
        places: CudaSlice<u32>,
        entries: CudaSlice<f32>,
        dense: CudaSlice<f32>,
        out: CudaSlice<f32>,
        rows: i32,
        each: i32,
    },
    Copy {
        from: CudaSlice<f32>,
        to: CudaSlice<f32>,
    },
    Pageable {
        host: Vec<f32>,
        device: CudaSlice<f32>,
        to_gpu: bool,
    },
    Pinned {
        host: PinnedHostSlice<f32>,
        device: CudaSlice<f32>,
        to_gpu: bool,
    },
}

const BLOCK: u32 = 256;

fn over(count: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (count.div_ceil(BLOCK), 1, 1), block_dim: (BLOCK, 1, 1), shared_mem_bytes: 0 }
}

fn square(edge: i32) -> GemmConfig<f32> {
    GemmConfig {
        transa: CUBLAS_OP_N,
        transb: CUBLAS_OP_N,
        m: edge,
        n: edge,
        k: edge,
        alpha: 1.0,
        lda: edge,
        ldb: edge,
        beta: 0.0,
        ldc: edge,
    }
}

impl Gpu {
    /// Puts the data of an operation in place.
    #[allow(unsafe_code)] // Pinned memory, below.
    pub fn prepare(&self, work: GpuWork, edge: u32) -> Result<Bench<'_>, GpuError> {
        let count = edge as usize * edge as usize;
        let signed = edge as i32;
        let held = match work {
            GpuWork::GemmF32 => Held::Gemm {
                a: self.numbers(count)?,
                b: self.numbers(count)?,
                c: self.numbers(count)?,
                edge: signed,
                batch: 1,
            },
            GpuWork::BatchedGemm => {
                let quarter = (edge / 4).max(1);
                let count = 16 * quarter as usize * quarter as usize;
                let (a, b, c) = (self.numbers(count)?, self.numbers(count)?, self.numbers(count)?);
                Held::Gemm { a, b, c, edge: quarter as i32, batch: 16 }
            }
            GpuWork::GemmBf16 => {
                let half: Vec<bf16> = (0..count).map(|at| bf16::from_f32((at % 17) as f32 / 17.0)).collect();
                let put =
                    || self.stream.clone_htod(&half).map_err(|error| self.failed("sending data", &error));
                Held::GemmBf16 { a: put()?, b: put()?, c: put()?, edge: signed }
            }
            GpuWork::Convolution => Held::Convolution {
                image: self.numbers(8 * count)?,
                kernel: self.numbers(8 * 8 * 9)?,
                out: self.numbers(8 * count)?,
                edge: signed,
            },
            GpuWork::Sort => {
                let padded = count.next_power_of_two();
                Held::Sort { values: self.numbers(padded)?, count: padded as u32 }
            }
            GpuWork::Sparse => {
                let each = (edge / 100).max(1);
                let places: Vec<u32> =
                    (0..edge * each).map(|at| at.wrapping_mul(2_654_435_761) % edge).collect();
                let places =
                    self.stream.clone_htod(&places).map_err(|error| self.failed("sending data", &error))?;
                Held::Sparse {
                    places,
                    entries: self.numbers((edge * each) as usize)?,
                    dense: self.numbers(edge as usize * 32)?,
                    out: self.numbers(edge as usize * 32)?,
                    rows: signed,
                    each: each as i32,
                }
            }
            GpuWork::Copy => Held::Copy { from: self.numbers(count)?, to: self.numbers(count)? },
            GpuWork::Transfer { to_gpu, pinned: false } => {
                Held::Pageable { host: vec![1.0; count], device: self.numbers(count)?, to_gpu }
            }
            GpuWork::Transfer { to_gpu, pinned: true } => {
                let device = self.numbers(count)?;
                // SAFETY: the memory is written in full before anything reads it.
                let mut host = unsafe { self.context.alloc_pinned::<f32>(count) }
                    .map_err(|error| self.failed("pinning memory", &error))?;
                host.as_mut_slice().map_err(|error| self.failed("pinning memory", &error))?.fill(1.0);
                Held::Pinned { host, device, to_gpu }
            }
        };
        self.settle("preparing data")?;
        Ok(Bench { gpu: self, held })
    }

    fn settle(&self, what: &'static str) -> Result<(), GpuError> {
        self.stream.synchronize().map_err(|error| self.failed(what, &error))
    }

    /// Numbers between 0 and 1.
    fn numbers(&self, count: usize) -> Result<CudaSlice<f32>, GpuError> {
        let mut slice =
            self.stream.alloc_zeros::<f32>(count).map_err(|error| self.failed("taking memory", &error))?;
        self.fill(&mut slice)?;
        Ok(slice)
    }

    #[allow(unsafe_code)] // A kernel, below.
    fn fill(&self, slice: &mut CudaSlice<f32>) -> Result<(), GpuError> {
        let failed = |error| self.failed("filling memory", &error);
        let function = self.module.load_function("fill").map_err(failed)?;
        let (count, seed) = (slice.len() as u64, 12345u32);
        let config = over(u32::try_from(count).unwrap_or(u32::MAX));
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(slice).arg(&count).arg(&seed);
        // SAFETY: the kernel writes below `count`, which is the length of the slice; arguments match its signature.
        unsafe { launch.launch(config) }.map_err(failed)?;
        Ok(())
    }
}

impl Bench<'_> {
    /// Runs it once, and says how many seconds that took, from the call until the GPU is done.
    pub fn once(&mut self) -> Result<f64, GpuError> {
        if let Held::Sort { values, .. } = &mut self.held {
            // What is sorted already would be sorted again; the order is undone first, off the clock.
            self.gpu.fill(values)?;
        }
        self.gpu.settle("waiting")?;
        let since = Instant::now();
        self.launch()?;
        self.gpu.settle("running an operation")?;
        Ok(since.elapsed().as_secs_f64())
    }

    #[allow(unsafe_code)] // Kernels and matrix products: a reason at each.
    fn launch(&mut self) -> Result<(), GpuError> {
        let gpu = self.gpu;
        let failed = |error: cudarc::driver::DriverError| gpu.failed("running an operation", &error);
        let blas = |error: cudarc::cublas::result::CublasError| gpu.failed("a matrix product", &error);
        match &mut self.held {
            Held::Gemm { a, b, c, edge, batch } => {
                let stride = i64::from(*edge) * i64::from(*edge);
                let config = StridedBatchedConfig {
                    gemm: square(*edge),
                    batch_size: *batch,
                    stride_a: stride,
                    stride_b: stride,
                    stride_c: stride,
                };
                // SAFETY: the three slices hold `batch` matrices of `edge * edge` numbers each, as the shape says.
                unsafe { gpu.blas.gemm_strided_batched(config, a, b, c) }.map_err(blas)
            }
            Held::GemmBf16 { a, b, c, edge } => {
                let shape = square(*edge);
                let config = GemmConfig {
                    transa: shape.transa,
                    transb: shape.transb,
                    m: shape.m,
                    n: shape.n,
                    k: shape.k,
                    alpha: bf16::ONE,
                    lda: shape.lda,
                    ldb: shape.ldb,
                    beta: bf16::ZERO,
                    ldc: shape.ldc,
                };
                // SAFETY: the three slices hold `edge * edge` numbers each, as the shape says.
                unsafe { gpu.blas.gemm(config, a, b, c) }.map_err(blas)
            }
            Held::Convolution { image, kernel, out, edge } => {
                let function = gpu.module.load_function("convolve").map_err(failed)?;
                let blocks = (*edge as u32).div_ceil(16);
                let config = LaunchConfig {
                    grid_dim: (blocks, blocks, 1),
                    block_dim: (16, 16, 1),
                    shared_mem_bytes: 0,
                };
                let mut launch = gpu.stream.launch_builder(&function);
                launch.arg(&*image).arg(&*kernel).arg(out).arg(&*edge);
                // SAFETY: image and result hold eight planes of `edge * edge`; the kernel checks every place against the edge.
                unsafe { launch.launch(config) }.map_err(failed).map(drop)
            }
            Held::Sort { values, count } => {
                let function = gpu.module.load_function("bitonic").map_err(failed)?;
                let mut k = 2u32;
                while k <= *count {
                    let mut j = k / 2;
                    while j > 0 {
                        let mut launch = gpu.stream.launch_builder(&function);
                        launch.arg(&mut *values).arg(&j).arg(&k);
                        let config = if *count < BLOCK {
                            LaunchConfig {
                                grid_dim: (1, 1, 1),
                                block_dim: (*count, 1, 1),
                                shared_mem_bytes: 0,
                            }
                        } else {
                            over(*count)
                        };
                        // SAFETY: there are exactly as many threads as values, a power of two, so that every partner of
                        // a thread is below the count.
                        unsafe { launch.launch(config) }.map_err(failed)?;
                        j /= 2;
                    }
                    let Some(next) = k.checked_mul(2) else { break };
                    k = next;
                }
                Ok(())
            }
            Held::Sparse { places, entries, dense, out, rows, each } => {
                let function = gpu.module.load_function("sparse").map_err(failed)?;
                let config = LaunchConfig {
                    grid_dim: ((*rows as u32).div_ceil(8), 1, 1),
                    block_dim: (32, 8, 1),
                    shared_mem_bytes: 0,
                };
                let mut launch = gpu.stream.launch_builder(&function);
                launch.arg(&*places).arg(&*entries).arg(&*dense).arg(out).arg(&*rows).arg(&*each);
                // SAFETY: places are below the number of rows of the dense matrix; rows are checked against their number.
                unsafe { launch.launch(config) }.map_err(failed).map(drop)
            }
            Held::Copy { from, to } => gpu.stream.memcpy_dtod(from, to).map_err(failed),
            Held::Pageable { host, device, to_gpu: true } => {
                gpu.stream.memcpy_htod(host, device).map_err(failed)
            }
            Held::Pageable { host, device, to_gpu: false } => {
                gpu.stream.memcpy_dtoh(device, host).map_err(failed)
            }
            Held::Pinned { host, device, to_gpu: true } => {
                gpu.stream.memcpy_htod(host, device).map_err(failed)
            }
            Held::Pinned { host, device, to_gpu: false } => {
                gpu.stream.memcpy_dtoh(device, host).map_err(failed)
            }
        }
    }
}
