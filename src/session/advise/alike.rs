//! Options of advice that are one to whoever reads them: the same steps on devices that gain alike.

use retime_core::scenario::parse_step;

use super::AdvisedOption;

/// Options whose steps differ only in the device, and whose gains by no more than that share of the time.
const ALIKE: f64 = 0.005;

/// Options in groups that are one to whoever reads them: the places of each, the best first, groups in the order of their best.
pub fn alike(options: &[AdvisedOption]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Vec<String>, Vec<usize>)> = Vec::new();
    for (at, option) in options.iter().enumerate() {
        let shape =
            option.steps.iter().map(|step| device_of(step).map_or_else(|| step.clone(), |(edit, _)| edit.to_owned()));
        let shape: Vec<String> = shape.collect();
        let near = |first: usize| (options[first].gain - option.gain).abs() <= ALIKE;
        let same = |(known, places): &&mut (Vec<String>, Vec<usize>)| *known == shape && near(places[0]);
        match groups.iter_mut().find(same).filter(|_| option.is_hardware) {
            Some((_, places)) => places.push(at),
            None => groups.push((shape, vec![at])),
        }
    }
    groups.into_iter().map(|(_, places)| places).collect()
}

/// The edit that puts the model on another device, and that device.
fn device_of(line: &str) -> Option<(&'static str, String)> {
    let step = parse_step(line).ok()?;
    Some((step.name(), step.device()?.to_owned()))
}

impl AdvisedOption {
    /// Its steps in a line, after which the other devices of its group are named.
    pub fn described(&self, others: &[&Self], between: &str) -> String {
        let device = |option: &Self| option.steps.iter().find_map(|step| Some(device_of(step)?.1));
        let devices: Vec<String> = others.iter().filter_map(|option| device(option)).collect();
        let steps = self.steps.join(between);
        if devices.is_empty() { steps } else { format!("{steps} ({} more: {})", devices.len(), devices.join(", ")) }
    }
}

/// An option of `steps` with that gain, the rest made up.
#[cfg(test)]
pub(super) fn option(steps: &[&str], gain: f64) -> AdvisedOption {
    AdvisedOption {
        steps: steps.iter().map(ToString::to_string).collect(),
        simulated_ns: retime_core::units::DurNs(1),
        steady_ns: retime_core::units::DurNs(1),
        gain,
        error_band: crate::session::ErrorBand {
            low_ns: retime_core::units::DurNs(1),
            high_ns: retime_core::units::DurNs(1),
            ..crate::session::ErrorBand::default()
        },
        memory_bytes: None,
        is_hardware: steps.iter().any(|step| device_of(step).is_some()),
        is_per_sample: false,
        sure_gain: gain,
        assumed: Vec::new(),
        assumed_share: 0.0,
        unhandled: Vec::new(),
        section: crate::session::Section::Code,
        unmodelled_share: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_gain_alike_are_one_row() {
        let options = [
            option(&["fuse-optimizer", "swap-gpu GB200"], 0.620),
            option(&["fuse-optimizer", "swap-gpu GB300"], 0.619),
            option(&["swap-gpu GB200"], 0.610),
            option(&["fuse-optimizer", "swap-gpu H100"], 0.500),
            option(&["fuse-optimizer"], 0.1),
            option(&["cuda-graph"], 0.1),
        ];
        assert_eq!(alike(&options), [vec![0, 1], vec![2], vec![3], vec![4], vec![5]]);
        let line = options[0].described(&[&options[1]], " + ");
        assert_eq!(line, "fuse-optimizer + swap-gpu GB200 (1 more: GB300)");
    }
}
