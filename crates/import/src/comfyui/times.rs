//! How long nodes take, which no workflow says: in proportion to steps, pixels, frames and weights, from a few usual figures.

use super::flow::Flow;
use super::models::{Part, Run};
use crate::draft::{Notes, shown_number};
use crate::guess::rounded;
use serde_json::{Map, Value};

/// Pixels of the image that figures are for.
const PIXELS: f64 = 1024.0 * 1024.0;
/// Seconds of one step of sampling such an image with a model of 12 GB.
const STEP: f64 = 0.15;
const STEP_GB: f64 = 12.0;
const ENCODE: f64 = 0.5;
const DECODE: f64 = 1.0;
const UPSCALE: f64 = 4.0;
const TOKENS_PER_SECOND: f64 = 50.0;

/// What a picture or film is like.
#[derive(Clone, Copy)]
struct Shape {
    width: f64,
    height: f64,
    frames: f64,
    batch: f64,
}

impl Shape {
    /// As a multiple of one image; a latent holds four frames of a film.
    fn images(self) -> f64 {
        let latents = if self.frames > 1.0 { 1.0 + (self.frames - 1.0) / 4.0 } else { 1.0 };
        self.width * self.height / PIXELS * latents * self.batch
    }
}

/// Seconds, and the settings that its request shows for it.
pub fn of(flow: &Flow<'_>, node: usize, run: &Run, gb: f64, notes: &mut Notes) -> (f64, Map<String, Value>) {
    let mut config = Map::new();
    let class = flow.nodes[node].class.as_str();
    let shape = shape(flow, node);
    notes.say(
        "Times are estimates: a step takes 0.15 s for a 1024x1024 image and 12 GB of weights, in proportion to pixels, frames and weights; \
         encoding 0.5 s; decoding 1 s an image; upscaling 4 s; text 50 tokens a second (give others with --time NODE=SECONDS)",
    );
    let seconds = match run.part {
        Part::Text if class.contains("Generate") => {
            let tokens = flow.number(node, "max_length").filter(|&tokens| tokens > 0.0).unwrap_or(512.0);
            config.insert("max_length".to_owned(), shown_number(tokens));
            tokens / TOKENS_PER_SECOND
        }
        Part::Text | Part::Vision | Part::Audio => ENCODE,
        Part::Upscaler | Part::Other => UPSCALE,
        Part::Vae => DECODE * shape.map_or(1.0, Shape::images),
        Part::Diffusion | Part::Attached | Part::Plan => {
            let steps = steps(flow, node);
            if steps.is_none() {
                notes.say_of("Samplers without a number of steps are assumed to take 20", class);
            }
            let steps = steps.unwrap_or(20.0);
            config.insert("steps".to_owned(), shown_number(steps));
            match shape {
                Some(shape) => {
                    config.insert("width".to_owned(), shown_number(shape.width));
                    config.insert("height".to_owned(), shown_number(shape.height));
                    if shape.frames > 1.0 {
                        config.insert("length".to_owned(), shown_number(shape.frames));
                    }
                }
                None => {
                    notes.say_of("Samplers with an unknown picture size are assumed to use 1024x1024", class)
                }
            }
            let denoise =
                flow.number(node, "denoise").filter(|share| *share > 0.0 && *share <= 1.0).unwrap_or(1.0);
            let weights = (gb / STEP_GB).clamp(0.1, 10.0);
            STEP * steps.max(1.0) * denoise * weights * shape.map_or(1.0, Shape::images)
        }
    };
    // Settings may be anything; no node takes longer than a month.
    (rounded(seconds.clamp(0.001, 2_592_000.0)), config)
}

/// Steps of a sampler: its own, or those of the schedule that leads to it.
fn steps(flow: &Flow<'_>, node: usize) -> Option<f64> {
    if let Some(steps) = flow.number(node, "steps") {
        let from = flow.number(node, "start_at_step").unwrap_or(0.0);
        let until = flow.number(node, "end_at_step").unwrap_or(steps).min(steps);
        return Some((until - from).max(1.0));
    }
    let (schedule, _) = flow.source_of(node, "sigmas")?;
    if let Some(sigmas) = flow.value(schedule, "sigmas").and_then(Value::as_str) {
        return Some((sigmas.split(',').count() as f64 - 1.0).max(1.0));
    }
    let denoise =
        flow.number(schedule, "denoise").filter(|share| *share > 0.0 && *share <= 1.0).unwrap_or(1.0);
    flow.number(schedule, "steps").map(|steps| (steps * denoise).round().max(1.0))
}

/// The size of what comes in: that of the first node on the way back that has one.
fn shape(flow: &Flow<'_>, node: usize) -> Option<Shape> {
    const BRINGS: [&str; 10] = [
        "latent_image",
        "samples",
        "latent",
        "video_latent",
        "av_latent",
        "image_embeds",
        "pixels",
        "image",
        "images",
        "video",
    ];
    const LENGTHS: [&str; 5] = ["length", "num_frames", "frames", "frames_number", "video_length"];
    let mut at = Some(node);
    for _ in 0..flow.nodes.len() {
        let node = at?;
        let side = |name: &str| flow.number(node, name).filter(|&side| (8.0..=65_536.0).contains(&side));
        if let (Some(width), Some(height)) = (side("width"), side("height")) {
            let count = |name: &str| flow.number(node, name).unwrap_or(1.0).clamp(1.0, 1e6);
            let frames = LENGTHS.iter().map(|name| count(name)).fold(1.0, f64::max);
            return Some(Shape { width, height, frames, batch: count("batch_size") });
        }
        at = BRINGS.iter().find_map(|name| flow.source_of(node, name)).map(|(from, _)| from);
    }
    None
}
