//! Where a model is to run: `cpu`, `cuda:0`, `cuda:1,2`, a list of devices, or `auto`.

use crate::fault::Fault;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The highest number of a GPU.
pub const MAX_GPU: u32 = 4095;
/// Most GPUs of one instance.
const MAX_COUNT: usize = 64;

/// As requests write it: a string, or a list of strings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum DeviceText {
    /// `cpu`, `cuda:0`, `cuda:1,2` or `auto`.
    One(String),
    /// One device an entry.
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for DeviceText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DeviceText, D::Error> {
        let wrong = || D::Error::custom("a device or a list of devices is expected, as in \"cuda:0\"");
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(DeviceText::One(text)),
            list @ Value::Array(_) => Vec::deserialize(list).map(DeviceText::List).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedDevices {
    /// The server chooses.
    Auto,
    /// These.
    These(Devices),
}

/// Devices that an instance runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// The CPU.
    Cpu,
    /// GPUs, by number, none twice.
    Cuda(Vec<u32>),
}

impl Devices {
    /// As one text: `cpu`, `cuda:1,2`.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Devices::Cpu => "cpu".to_string(),
            Devices::Cuda(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                format!("cuda:{}", numbers.join(","))
            }
        }
    }

    /// One text a device.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        match self {
            Devices::Cpu => vec!["cpu".to_string()],
            Devices::Cuda(numbers) => numbers.iter().map(|number| format!("cuda:{number}")).collect(),
        }
    }
}

/// What the text of a request means; nothing said is `auto`.
pub fn parse(text: Option<&DeviceText>) -> Result<WantedDevices, Fault> {
    let refuse = |given: &str| {
        let given: String = given.chars().take(40).collect();
        let message = format!(
            "`{given}` is not a device: write `cpu`, `cuda:0`, `cuda:1,2`, a list of them, or `auto` \
             (GPUs are numbered from 0 to {MAX_GPU}, {MAX_COUNT} at most, none twice)"
        );
        Fault::param("device", message)
    };
    let entries = match text {
        None => return Ok(WantedDevices::Auto),
        Some(DeviceText::One(text)) => std::slice::from_ref(text),
        Some(DeviceText::List(list)) => list.as_slice(),
    };
    match entries {
        [] => return Err(Fault::param("device", "the list of devices is empty")),
        [one] if one == "auto" => return Ok(WantedDevices::Auto),
        [one] if one == "cpu" => return Ok(WantedDevices::These(Devices::Cpu)),
        _ => {}
    }
    let mut numbers = Vec::new();
    for entry in entries {
        let list = entry.strip_prefix("cuda:").ok_or_else(|| refuse(entry))?;
        for number in list.split(',') {
            let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            let number = number.parse::<u32>().ok().filter(|number| plain && *number <= MAX_GPU);
            let number = number.ok_or_else(|| refuse(entry))?;
            if numbers.contains(&number) || numbers.len() == MAX_COUNT {
                return Err(refuse(entry));
            }
            numbers.push(number);
        }
    }
    Ok(WantedDevices::These(Devices::Cuda(numbers)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<WantedDevices, Fault> {
        parse(Some(&DeviceText::One(text.to_string())))
    }

    #[test]
    fn texts_that_are_devices() {
        for (text, shown, count) in [("cpu", "cpu", 1), ("cuda:0", "cuda:0", 1), ("cuda:1,2", "cuda:1,2", 2)]
        {
            let Ok(WantedDevices::These(devices)) = one(text) else { panic!("{text}") };
            assert_eq!((devices.text().as_str(), devices.list().len()), (shown, count));
        }
    }

    #[test]
    fn lists_and_auto() {
        let list = DeviceText::List(vec!["cuda:3".to_string(), "cuda:1".to_string()]);
        assert_eq!(parse(Some(&list)), Ok(WantedDevices::These(Devices::Cuda(vec![3, 1]))));
        assert_eq!(one("auto"), Ok(WantedDevices::Auto));
        assert_eq!(parse(None), Ok(WantedDevices::Auto));
    }

    #[test]
    fn texts_that_are_none() {
        let texts = [
            "",
            "gpu",
            "cuda",
            "cuda:",
            "cuda:-1",
            "cuda:+1",
            "cuda:1,",
            "cuda:1,1",
            "cuda:99999",
            "cuda:0;rm",
        ];
        for text in texts {
            let fault = one(text).unwrap_err();
            assert_eq!((fault.status.as_u16(), fault.param.as_deref()), (400, Some("device")), "{text}");
        }
    }

    #[test]
    fn the_cpu_goes_with_nothing_else() {
        let list = DeviceText::List(vec!["cpu".to_string(), "cuda:1".to_string()]);
        assert!(parse(Some(&list)).is_err());
        assert!(parse(Some(&DeviceText::List(Vec::new()))).is_err());
    }
}
