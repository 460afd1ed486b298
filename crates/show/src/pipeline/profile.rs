//! The hardware: how fast each device is at each size, and from where on the GPU pays.

use super::Files;
use crate::chart::{Axis, Chart, Mark, Series, Stroke, colour};
use crate::page::{Block, Cell, PageTable, Section};
use gswarm_tasks::profile::{DeviceKind, HardwareProfile, Operation, crossovers, ratios};

pub fn section(files: &Files) -> Section {
    let mut blocks = vec![Block::Text(match &files.measured {
        Some(measured) => format!(
            "Phase 1 measures this machine ({}). The later phases use the {} machine{}.",
            devices(measured),
            files.used.source,
            if files.used == *measured { ", which is the same" } else { "" }
        ),
        None => format!("Nothing was measured; the phases use the {} machine.", files.used.source),
    })];
    blocks.push(Block::Chart(Box::new(rates("profile_used", "What later phases use", &files.used))));
    if let Some(measured) = files.measured.as_ref().filter(|measured| **measured != files.used) {
        blocks.push(Block::Chart(Box::new(rates("profile_measured", "Measured on this machine", measured))));
    }
    blocks.push(Block::Chart(Box::new(crossover(&files.used))));
    blocks.push(Block::Table(crossover_table(&files.used)));
    Section { title: "Hardware profile".to_owned(), blocks }
}

fn devices(profile: &HardwareProfile) -> String {
    let named = profile.devices.iter().map(|device| format!("{}: {}", device.name, device.model));
    named.collect::<Vec<String>>().join("; ")
}

fn rates(name: &str, title: &str, profile: &HardwareProfile) -> Chart {
    let mut chart =
        Chart::new(name, title, Axis::new("size (edge of the square)").log(), Axis::new("GFLOP/s").log())
            .about(
                "Median of the repetitions. Each operation has a colour; GPUs are solid, the CPU is dashed.",
            );
    let counted = Operation::ALL.into_iter().filter(|operation| operation.flops(1024) > 0.0);
    for (number, operation) in counted.enumerate() {
        for device in &profile.devices {
            let mut points: Vec<(f64, f64)> = device
                .measurements
                .iter()
                .filter(|one| one.operation == operation && one.median_seconds > 0.0)
                .map(|one| (f64::from(one.size), operation.flops(one.size) / one.median_seconds / 1e9))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if points.is_empty() {
                continue;
            }
            let gpu = device.kind == DeviceKind::Gpu;
            // The stroke says which device it is: an operation is named once.
            let named = gpu || profile.device(DeviceKind::Gpu).is_none();
            chart.series.push(Series::Line {
                name: if named { operation.name().to_owned() } else { String::new() },
                points,
                colour: colour(number),
                stroke: if gpu { Stroke::Solid } else { Stroke::Dashed },
                stairs: false,
                dots: true,
            });
        }
    }
    chart
}

fn crossover(profile: &HardwareProfile) -> Chart {
    let mut chart = Chart::new(
        "profile_crossover",
        "CPU time over GPU time, including the transfer",
        Axis::new("size (edge of the square)").log(),
        Axis::new("CPU time / GPU time").log(),
    )
    .about("Above the line the GPU is faster, including the transfer of three matrices.");
    let all = ratios(profile);
    for operation in Operation::ALL {
        let its = all.iter().filter(|ratio| ratio.operation == operation);
        let mut points: Vec<(f64, f64)> =
            its.map(|ratio| (f64::from(ratio.size), ratio.with_transfer)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !points.is_empty() {
            chart.line(operation.name(), points);
        }
    }
    if !chart.is_empty() {
        chart.marks.push(Mark::Across { at: 1.0, label: "as fast".to_owned() });
    }
    chart
}

fn crossover_table(profile: &HardwareProfile) -> PageTable {
    let size =
        |size: Option<u32>| size.map_or(Cell::text("never"), |size| Cell::number(Some(f64::from(size)), 0));
    PageTable {
        caption: "The smallest measured size from which the GPU is faster".to_owned(),
        head: ["operation", "data already on the GPU", "including the transfer"].map(str::to_owned).to_vec(),
        rows: crossovers(&ratios(profile))
            .into_iter()
            .map(|one| vec![Cell::text(one.operation.name()), size(one.resident), size(one.with_transfer)])
            .collect(),
        ..PageTable::default()
    }
}
