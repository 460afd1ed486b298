//! The operations on the CPU, on all cores, by the libraries that real work uses: products and convolutions by candle,
//! which calls the tuned kernels of `gemm`; sorting by rayon.

use candle_core::{DType, Device as Place, Tensor};
use gswarm_tasks::profile::{Device, DeviceKind, Effort, Measurement, Operation, repeat};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

/// Why the CPU could not be measured.
#[derive(Debug, thiserror::Error)]
#[error("{operation} at size {size} on the CPU: {reason}")]
pub struct CpuError {
    operation: &'static str,
    size: u32,
    reason: candle_core::Error,
}

/// Measures every operation at every size. `tell` hears what is measured next.
pub fn measure(
    sizes: &[u32],
    effort: &Effort,
    mut tell: impl FnMut(Operation, u32),
) -> Result<Device, CpuError> {
    let mut measurements = Vec::new();
    for operation in Operation::ALL {
        for &size in sizes {
            tell(operation, size);
            let measured = one(operation, size, effort);
            measurements.push(measured.map_err(|reason| CpuError {
                operation: operation.name(),
                size,
                reason,
            })?);
        }
    }
    let cores = rayon::current_num_threads() as f64;
    Ok(Device {
        name: "cpu".to_string(),
        kind: DeviceKind::Cpu,
        model: model(),
        memory_mb: memory_mb(),
        memory_gb_per_s: memory_rate(sizes, effort),
        idle_watts: 2.0 * cores,
        busy_watts: 8.0 * cores,
        power_source: "assumed".to_string(),
        measurements,
    })
}

fn one(operation: Operation, size: u32, effort: &Effort) -> candle_core::Result<Measurement> {
    let edge = size as usize;
    let place = &Place::Cpu;
    let random = |shape: &[usize]| Tensor::rand(-1f32, 1f32, shape, place);
    let timed = |run: &mut dyn FnMut() -> candle_core::Result<()>| {
        repeat(effort, operation, size, || {
            let since = Instant::now();
            run()?;
            Ok(since.elapsed().as_secs_f64())
        })
    };
    match operation {
        Operation::GemmF32 => {
            let (a, b) = (random(&[edge, edge])?, random(&[edge, edge])?);
            timed(&mut || a.matmul(&b).map(|c| drop(black_box(c))))
        }
        Operation::GemmBf16 => {
            // No CPU kernel here multiplies brain floats: they are widened, multiplied and rounded, as programs do.
            let (a, b) = (
                random(&[edge, edge])?.to_dtype(DType::BF16)?,
                random(&[edge, edge])?.to_dtype(DType::BF16)?,
            );
            timed(&mut || {
                let c = a.to_dtype(DType::F32)?.matmul(&b.to_dtype(DType::F32)?)?.to_dtype(DType::BF16)?;
                black_box(c);
                Ok(())
            })
        }
        Operation::BatchedGemm => {
            let quarter = (edge / 4).max(1);
            let (a, b) = (random(&[16, quarter, quarter])?, random(&[16, quarter, quarter])?);
            timed(&mut || a.matmul(&b).map(|c| drop(black_box(c))))
        }
        Operation::Convolution => {
            let (image, kernel) = (random(&[1, 8, edge, edge])?, random(&[8, 8, 3, 3])?);
            timed(&mut || image.conv2d(&kernel, 1, 1, 1, 1).map(|c| drop(black_box(c))))
        }
        Operation::Sort => sort(edge, effort, size),
        Operation::Sparse => Ok(sparse(edge, effort, size)),
        Operation::Copy => Ok(copy(edge, effort, size)),
    }
}

fn numbers(count: usize) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    (0..count).map(|_| rng.random::<f32>()).collect()
}

fn sort(edge: usize, effort: &Effort, size: u32) -> candle_core::Result<Measurement> {
    let source = numbers(edge * edge);
    let mut values = source.clone();
    repeat(effort, Operation::Sort, size, || {
        values.copy_from_slice(&source);
        let since = Instant::now();
        values.par_sort_unstable_by(f32::total_cmp);
        let took = since.elapsed().as_secs_f64();
        black_box(&values);
        Ok(took)
    })
}

/// One entry in a hundred, in rows, times a matrix of 32 columns.
fn sparse(edge: usize, effort: &Effort, size: u32) -> Measurement {
    const COLUMNS: usize = 32;
    let each = (edge / 100).max(1);
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let places: Vec<u32> = (0..edge * each).map(|_| rng.random_range(0..edge as u32)).collect();
    let (entries, dense) = (numbers(edge * each), numbers(edge * COLUMNS));
    let mut product = vec![0f32; edge * COLUMNS];
    let measured = repeat(effort, Operation::Sparse, size, || {
        let since = Instant::now();
        product.par_chunks_mut(COLUMNS).enumerate().with_min_len(16).for_each(|(row, out)| {
            out.fill(0.0);
            for at in row * each..(row + 1) * each {
                let from = places[at] as usize * COLUMNS;
                for (sum, value) in out.iter_mut().zip(&dense[from..from + COLUMNS]) {
                    *sum += entries[at] * value;
                }
            }
        });
        let took = since.elapsed().as_secs_f64();
        black_box(&product);
        Ok::<_, std::convert::Infallible>(took)
    });
    match measured {
        Ok(measured) => measured,
        Err(never) => match never {},
    }
}

/// The largest cache, in bytes, where the system tells it; else as large as they come on usual machines.
fn cache_bytes() -> f64 {
    const USUAL: f64 = 64e6;
    let bytes = |index: u32| {
        let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size"));
        let text = text.ok()?;
        let kilobytes: f64 = text.trim().strip_suffix('K')?.parse().ok()?;
        Some(kilobytes * 1024.0)
    };
    (0..8).filter_map(bytes).reduce(f64::max).unwrap_or(USUAL)
}

/// The edge of the square whose copy is far larger than a cache of so many bytes, and no smaller than what was asked for.
fn beyond_cache(largest: u32, cache: f64) -> u32 {
    const TIMES: f64 = 4.0;
    /// Two squares of 512 MB: more is not copied for a rate.
    const MOST: u32 = 11_586;
    largest.max(((TIMES * cache / 8.0).sqrt().ceil() as u32).min(MOST))
}

/// Bytes read and written a second, in GB, by a copy that no cache holds: that of a small one would be the cache's.
fn memory_rate(sizes: &[u32], effort: &Effort) -> f64 {
    let edge = beyond_cache(sizes.iter().copied().max().unwrap_or(0), cache_bytes());
    // Written, so that each page is one of its own.
    let measured = copied(vec![1.0; edge as usize * edge as usize], effort, edge);
    8.0 * f64::from(edge).powi(2) / measured.median_seconds / 1e9
}

fn copy(edge: usize, effort: &Effort, size: u32) -> Measurement {
    copied(numbers(edge * edge), effort, size)
}

fn copied(source: Vec<f32>, effort: &Effort, size: u32) -> Measurement {
    let mut target = vec![0f32; source.len()];
    let measured = repeat(effort, Operation::Copy, size, || {
        let since = Instant::now();
        let chunk = (source.len() / rayon::current_num_threads()).max(1 << 14);
        target
            .par_chunks_mut(chunk)
            .zip(source.par_chunks(chunk))
            .for_each(|(to, from)| to.copy_from_slice(from));
        let took = since.elapsed().as_secs_f64();
        black_box(&target);
        Ok::<_, std::convert::Infallible>(took)
    });
    match measured {
        Ok(measured) => measured,
        Err(never) => match never {},
    }
}

/// The value behind a key of a file of lines such as `key : value`, where there is such a file.
fn field(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim().to_string())
}

fn model() -> String {
    let cores = rayon::current_num_threads();
    let name = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_string());
    format!("{name}, {cores} threads")
}

fn memory_mb() -> f64 {
    let kilobytes =
        field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    kilobytes.map_or(0.0, |kilobytes| (kilobytes * 1024.0 / 1e6).round())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_rate_of_the_memory_is_that_of_a_copy_beyond_the_cache() {
        for (largest, cache) in [(64, 32e6), (2048, 64e6), (16_384, 1e6)] {
            let edge = f64::from(beyond_cache(largest, cache));
            assert!(edge >= f64::from(largest) && 8.0 * edge * edge >= 4.0 * cache, "{largest} {cache}");
        }
        assert!(beyond_cache(64, 1e12) < 16_384);
    }

    #[test]
    fn every_operation_is_measured_at_every_size() {
        let effort = Effort { warm_up: 1, least: 2, most: 2, spread: 1.0, budget: Duration::from_millis(1) };
        let mut told = 0;
        let device = measure(&[16, 64], &effort, |_, _| told += 1).unwrap();
        assert_eq!((told, device.measurements.len()), (14, 14));
        assert!(device.measurements.iter().all(|measured| measured.median_seconds > 0.0));
        assert!(device.memory_gb_per_s > 0.0 && device.memory_mb > 0.0);
    }
}
