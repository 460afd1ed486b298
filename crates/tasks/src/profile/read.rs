//! Profiles from files.

use super::types::{HardwareProfile, VERSION};
use gswarm_core::input::{Code, Diagnostic};
use serde_json::error::Category;

/// Reads `hardware_profile.json`.
pub fn read(name: &str, bytes: &[u8]) -> Result<HardwareProfile, Diagnostic> {
    let fault = |code: Code, line: Option<u32>, path: &str, message: String| Diagnostic {
        line,
        path: path.to_string(),
        hint: Some("`gswarm tasks profile --out FILE` writes one".to_string()),
        ..Diagnostic::of_file(name, code, message)
    };
    let profile: HardwareProfile = serde_json::from_slice(bytes).map_err(|error| {
        let code = match error.classify() {
            Category::Eof => Code::Truncated,
            Category::Data => Code::WrongType,
            Category::Syntax | Category::Io => Code::Syntax,
        };
        fault(code, u32::try_from(error.line()).ok(), "", format!("this is not a hardware profile: {error}"))
    })?;
    if profile.version != VERSION {
        let message = format!("the profile has version {}; this gswarm reads {VERSION}", profile.version);
        return Err(fault(Code::UnknownChoice, None, "version", message));
    }
    for device in &profile.devices {
        let numbers = [device.memory_mb, device.memory_gb_per_s, device.idle_watts, device.busy_watts];
        if numbers.iter().any(|number| !number.is_finite() || *number < 0.0) {
            let message = format!("{}: memory, bandwidth and power are zero or above", device.name);
            return Err(fault(Code::Negative, None, "devices", message));
        }
    }
    for link in &profile.links {
        if !(link.to_pinned_gb_per_s.is_finite()
            && link.to_pinned_gb_per_s > 0.0
            && link.latency_seconds >= 0.0)
        {
            let message = format!("{}: the bandwidth of the link must be above zero", link.device);
            return Err(fault(Code::NotPositive, None, "links", message));
        }
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::described;

    #[test]
    fn what_is_written_is_read_and_faults_are_named() {
        let text = serde_json::to_string(&described()).unwrap();
        let again = read("p", text.as_bytes()).unwrap();
        let times = |profile: &HardwareProfile| -> Vec<f64> {
            let measured = profile.devices.iter().flat_map(|device| &device.measurements);
            measured.map(|measured| measured.median_seconds).collect()
        };
        assert_eq!((again.links.clone(), times(&again).len()), (described().links, 112));
        // Numbers are read to the last digit but one.
        assert!(times(&again).iter().zip(times(&described())).all(|(a, b)| (a / b - 1.0).abs() < 1e-14));
        let cases = [
            (text[..text.len() / 2].to_string(), Code::Truncated),
            ("{]".to_string(), Code::Syntax),
            ("{\"version\": 1}".to_string(), Code::WrongType),
            (text.replacen("\"version\":1", "\"version\":9", 1), Code::UnknownChoice),
            (
                text.replacen("\"to_pinned_gb_per_s\":50.0", "\"to_pinned_gb_per_s\":0.0", 1),
                Code::NotPositive,
            ),
            (text.replacen("\"idle_watts\":60.0", "\"idle_watts\":-1.0", 1), Code::Negative),
        ];
        for (text, code) in cases {
            assert_eq!(read("p", text.as_bytes()).unwrap_err().code, code);
        }
    }
}
