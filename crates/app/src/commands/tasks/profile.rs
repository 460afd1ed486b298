//! `gswarm tasks profile`: what this machine can do.

mod cpu;

use crate::failure::Failure;
use crate::output::{self, files, progress::Phase, table};
use clap::Args;
use gswarm_tasks::profile::{
    Crossover, DeviceKind, Effort, HardwareProfile, Operation, Ratio, VERSION, crossovers, gpus, measure_gpu,
    ratios,
};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  gswarm tasks profile --out hardware_profile.json
  gswarm tasks profile --device cpu --sizes 256,512 --out cpu.json
  gswarm tasks profile --device cuda:0 --budget 0.5 --out gpu.json

Each operation is warmed up and repeated until the quartiles are within 5% of the median, or its budget is used up.
CUDA is loaded at run time. Without it, a note says so and only the CPU is measured.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ProfileArgs {
    /// What to measure: cpu, one GPU as in cuda:0, or all
    #[arg(long, value_name = "DEVICE", default_value = "all", value_parser = devices)]
    device: Wanted,
    /// Edge lengths of the matrices
    #[arg(long, value_name = "N,...", default_value = "256,512,1024,2048", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(16..=16384))]
    sizes: Vec<u32>,
    /// Time budget in seconds per operation and size
    #[arg(long, value_name = "SECONDS", default_value_t = 0.6, value_parser = crate::args::not_negative)]
    budget: f64,
    /// File to write
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    /// All that there are.
    All,
    /// The CPU.
    Cpu,
    /// One GPU.
    Gpu(usize),
}

fn devices(text: &str) -> Result<Wanted, String> {
    match text {
        "all" => Ok(Wanted::All),
        "cpu" => Ok(Wanted::Cpu),
        _ => match text.strip_prefix("cuda:").map(str::parse) {
            Some(Ok(number)) => Ok(Wanted::Gpu(number)),
            _ => Err(format!("`{text}` is not a device: write cpu, cuda:0 or all")),
        },
    }
}

pub fn run(args: &ProfileArgs) -> Result<(), Failure> {
    crate::commands::generate::keep(&args.out, args.force)?;
    let mut sizes = args.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let effort = Effort { budget: Duration::from_secs_f64(args.budget.min(3600.0)), ..Effort::default() };
    output::interrupt::say_when_interrupted(Some("interrupted: nothing was written".to_owned()));
    let profile = take(args.device, &sizes, &effort, true)?;
    let name = args.out.file_name().unwrap_or_default().to_string_lossy();
    let mut batch = files::Batch::new(args.out.parent().unwrap_or("".as_ref()))?.replacing(args.force);
    batch.add(&name, |out| write(&profile, out))?;
    output::interrupt::say_when_interrupted(None);
    batch.commit()?;
    report(&profile)?;
    output::line(&format!("Wrote {}", args.out.display()))
}

/// Writes the profile as its file has it.
pub fn write(profile: &HardwareProfile, out: &mut dyn std::io::Write) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, profile)?;
    out.write_all(b"\n")
}

/// Measures the devices; a GPU that was asked for by name has to be there.
pub fn take(wanted: Wanted, sizes: &[u32], effort: &Effort, shown: bool) -> Result<HardwareProfile, Failure> {
    let mut found = HardwareProfile {
        version: VERSION,
        source: "measured".to_string(),
        devices: Vec::new(),
        links: Vec::new(),
        notes: Vec::new(),
    };
    let numbers: Vec<usize> = match wanted {
        Wanted::Cpu => Vec::new(),
        Wanted::Gpu(number) => vec![number],
        Wanted::All => match gpus() {
            Ok(count) => (0..count).collect(),
            Err(error) => {
                output::note(&format!("note: no GPU is measured: {error}"));
                found.notes.push(format!("no GPU was measured: {error}"));
                Vec::new()
            }
        },
    };
    if !matches!(wanted, Wanted::Gpu(_)) {
        let _phase = Phase::new("measuring the CPU", shown);
        let device = cpu::measure(sizes, effort, |_, _| ())
            .map_err(|error| Failure::input(format!("G004: {error}")))?;
        found.devices.push(device);
    }
    for number in numbers {
        let _phase = Phase::new(format!("measuring cuda:{number}"), shown);
        let measured = measure_gpu(number, sizes, effort, |_, _| ()).map_err(|error| {
            Failure::input(error.to_string()).hint("nothing was written; --device cpu measures the CPU alone")
        })?;
        found.devices.push(measured.device);
        found.links.push(measured.link);
        found.notes.extend(measured.notes);
    }
    Ok(found)
}

fn time(seconds: f64) -> String {
    if seconds >= 1.0 {
        format!("{seconds:.3} s")
    } else if seconds >= 1e-3 {
        format!("{:.3} ms", seconds * 1e3)
    } else {
        format!("{:.1} us", seconds * 1e6)
    }
}

fn report(profile: &HardwareProfile) -> Result<(), Failure> {
    for device in &profile.devices {
        output::line(&format!(
            "{}: {}, {:.0} MB, {:.1} GB/s, {:.0} to {:.0} W ({})",
            output::heading(&device.name),
            device.model,
            device.memory_mb,
            device.memory_gb_per_s,
            device.idle_watts,
            device.busy_watts,
            device.power_source
        ))?;
        let rows = device.measurements.iter().map(|one| {
            let flops = one.operation.flops(one.size);
            let rate =
                if flops > 0.0 { format!("{:.1}", flops / one.median_seconds / 1e9) } else { String::new() };
            vec![
                one.operation.name().to_string(),
                one.size.to_string(),
                time(one.median_seconds),
                format!("{:.1}%", 100.0 * one.spread),
                one.repetitions.to_string(),
                rate,
            ]
        });
        output::line(&table::table(&["operation", "size", "median", "spread", "runs", "GFLOP/s"], 1, rows))?;
    }
    for link in &profile.links {
        output::line(&format!(
            "{}: to it {:.1} GB/s pinned, {:.1} pageable; from it {:.1} pinned, {:.1} pageable; latency {}",
            link.device,
            link.to_pinned_gb_per_s,
            link.to_pageable_gb_per_s,
            link.from_pinned_gb_per_s,
            link.from_pageable_gb_per_s,
            time(link.latency_seconds)
        ))?;
    }
    let ratios = ratios(profile);
    if ratios.is_empty() {
        let missing = if profile.device(DeviceKind::Cpu).is_none() { "CPU" } else { "GPU" };
        return output::line(&format!("No CPU/GPU ratio: the {missing} was not measured."));
    }
    advice(&ratios)
}

fn advice(ratios: &[Ratio]) -> Result<(), Failure> {
    let rows = ratios.iter().map(|one| {
        vec![
            one.operation.name().to_string(),
            one.size.to_string(),
            format!("{:.2}", one.cpu_over_gpu),
            format!("{:.2}", one.with_transfer),
            format!("{:.3}", one.gpu_share),
        ]
    });
    output::line(&table::table(
        &["operation", "size", "CPU / GPU", "with transfer", "share for the GPU"],
        1,
        rows,
    ))?;
    for Crossover { operation, resident, with_transfer } in crossovers(ratios) {
        let from = |size: Option<u32>| {
            size.map_or("at no measured size".to_string(), |size| format!("from {size} on"))
        };
        output::line(&format!(
            "{}: the GPU is faster {}; including the transfer of its data, {}",
            Operation::name(operation),
            from(resident),
            from(with_transfer)
        ))?;
    }
    Ok(())
}
