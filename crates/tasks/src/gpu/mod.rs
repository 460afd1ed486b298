//! One GPU as something that can be timed. CUDA is loaded at run time; where it is not there, that is an error and no panic.

mod kernels;
mod power;
mod work;

pub use power::Power;
pub use work::GpuWork;

use cudarc::cublas::CudaBlas;
use cudarc::driver::{CudaContext, CudaModule, CudaStream, DriverError};
use std::sync::Arc;

/// Why a GPU cannot be used, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// A library that has to be loaded is not there.
    #[error("G001: {0} is not installed on this machine")]
    NoLibrary(&'static str),
    /// There are not so many.
    #[error("G002: there is no GPU {wanted}; {found} found")]
    NoDevice {
        /// Which was asked for.
        wanted: usize,
        /// How many there are.
        found: usize,
    },
    /// A call failed: it may be out of memory, or gone.
    #[error("G003: GPU {gpu}: {what} failed: {reason}")]
    Call {
        /// Which GPU.
        gpu: usize,
        /// During what.
        what: &'static str,
        /// As CUDA says it.
        reason: String,
    },
}

/// How many GPUs there are; an error where CUDA itself is not there.
pub fn count() -> Result<usize, GpuError> {
    #[allow(unsafe_code)]
    // SAFETY: these only try to open the shared library by its names.
    let present = unsafe {
        [
            ("the CUDA driver", cudarc::driver::sys::is_culib_present()),
            ("NVRTC", cudarc::nvrtc::sys::is_culib_present()),
            ("cuBLAS", cudarc::cublas::sys::is_culib_present()),
        ]
    };
    if let Some((name, _)) = present.into_iter().find(|&(_, there)| !there) {
        return Err(GpuError::NoLibrary(name));
    }
    let found = CudaContext::device_count().map_err(|error| GpuError::Call {
        gpu: 0,
        what: "counting GPUs",
        reason: error.to_string(),
    })?;
    Ok(usize::try_from(found).unwrap_or(0))
}

pub struct Gpu {
    ordinal: usize,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    blas: CudaBlas,
    module: Arc<CudaModule>,
}

impl Gpu {
    /// Opens a GPU by its number.
    pub fn open(ordinal: usize) -> Result<Gpu, GpuError> {
        let found = count()?;
        if ordinal >= found {
            return Err(GpuError::NoDevice { wanted: ordinal, found });
        }
        let failed =
            |what| move |error: DriverError| GpuError::Call { gpu: ordinal, what, reason: error.to_string() };
        let context = CudaContext::new(ordinal).map_err(failed("opening it"))?;
        let stream = context.new_stream().map_err(failed("making a stream"))?;
        let blas = CudaBlas::new(stream.clone()).map_err(|error| GpuError::Call {
            gpu: ordinal,
            what: "starting cuBLAS",
            reason: error.to_string(),
        })?;
        let capability = context.compute_capability().map_err(failed("asking for its capability"))?;
        let compiled = kernels::compile(capability).map_err(|reason| GpuError::Call {
            gpu: ordinal,
            what: "compiling kernels",
            reason,
        })?;
        let module = context.load_module(compiled).map_err(failed("loading kernels"))?;
        Ok(Gpu { ordinal, context, stream, blas, module })
    }

    /// As its maker calls it.
    pub fn name(&self) -> Result<String, GpuError> {
        self.context.name().map_err(|error| self.failed("asking for its name", &error))
    }

    pub fn memory_bytes(&self) -> Result<u64, GpuError> {
        let total = self.context.total_mem().map_err(|error| self.failed("asking for its memory", &error))?;
        Ok(total as u64)
    }

    fn failed(&self, what: &'static str, error: &dyn std::fmt::Display) -> GpuError {
        GpuError::Call { gpu: self.ordinal, what, reason: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_cuda_says_so() {
        match count() {
            Err(error) => assert!(error.to_string().starts_with("G00"), "{error}"),
            Ok(found) => {
                let error = Gpu::open(found).err().expect("there is no such GPU");
                assert!(error.to_string().starts_with("G002"), "{error}");
            }
        }
    }
}
