//! Goals: the share of the time to save, and the simplest option that does.

use serde::Serialize;

use retime_core::units::{DurNs, Percent};

use super::AdvisedOption;

/// What a goal takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// Share of the time per sample to save.
    pub target: f64,
    /// Whether an option reaches it.
    pub is_reached: bool,
    /// The fewest steps that reach it, where possible with the same batch, and without other hardware; else the best there are.
    pub steps: Vec<String>,
    /// What they save.
    pub gain: f64,
    /// Whether that is time per sample, of another batch.
    pub is_per_sample: bool,
    /// The recorded window with them; `None` without any.
    pub simulated_ns: Option<DurNs>,
    /// The iteration with them.
    pub steady_ns: Option<DurNs>,
}

impl Goal {
    /// The simplest option that saves `target`; without one the best of the same batch, else of any.
    pub fn of(options: &[AdvisedOption], target: f64) -> Self {
        let reaching = options.iter().filter(|option| option.gain >= target);
        let simplest = reaching.min_by_key(|option| (option.is_hardware, option.is_per_sample, option.steps.len()));
        let most = || options.iter().min_by(|a, b| b.gain.total_cmp(&a.gain));
        let chosen = simplest.or_else(most);
        Self {
            target,
            is_reached: simplest.is_some(),
            steps: chosen.map(|option| option.steps.clone()).unwrap_or_default(),
            gain: chosen.map_or(0.0, |option| option.gain),
            is_per_sample: chosen.is_some_and(|option| option.is_per_sample),
            simulated_ns: chosen.map(|option| option.simulated_ns),
            steady_ns: chosen.map(|option| option.steady_ns),
        }
    }

    /// The target in percent, as it was given.
    pub fn percent(&self) -> f64 {
        (1e5 * self.target).round() / 1e3
    }

    /// What it takes, in a sentence.
    pub fn sentence(&self) -> String {
        let target = self.percent();
        let Some(time) = self.steady_ns else { return format!("−{target} % is out of reach: no edit gains") };
        let of = if self.is_per_sample { " per sample" } else { "" };
        let gain = format!("−{}{of}, iteration {time}", Percent(self.gain));
        let steps = self.steps.join("; ");
        if self.is_reached {
            format!("−{target} % is reached ({gain}) by: {steps}")
        } else {
            format!("−{target} % is out of reach; the most is {gain}, by: {steps}")
        }
    }
}

/// Reads a goal, `-20%` or `20`: the share of the time to save.
///
/// # Errors
/// It is no number above 0 % and below 100 %.
pub fn parse_target(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_start_matches(['-', '−']);
    let digits = number.strip_suffix('%').unwrap_or(number).trim();
    let unsigned = Some(digits).filter(|digits| !digits.starts_with('+'));
    let percent: Option<f64> = unsigned
        .and_then(|digits| digits.parse().ok())
        .filter(|percent| (0.0..100.0).contains(percent) && *percent > 0.0);
    let wanted = "expected the share of the time to save, above 0 % and below 100 %, e.g. -20%";
    percent.map(|percent| percent / 100.0).ok_or_else(|| format!("`{text}`: {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::super::alike::option;
    use super::*;

    #[test]
    fn a_goal_takes_the_simplest_option_of_the_same_batch_on_the_same_device() {
        let batch = AdvisedOption { is_per_sample: true, ..option(&["resize-batch 64"], 0.5) };
        let mut options = vec![option(&["swap-gpu H100"], 0.4), option(&["fuse-optimizer", "cuda-graph"], 0.3), batch];
        let steps = |options: &[AdvisedOption], target| Goal::of(options, target).steps.join("; ");
        assert_eq!(steps(&options, 0.2), "fuse-optimizer; cuda-graph");
        assert_eq!(steps(&options, 0.4), "resize-batch 64");
        let most = Goal::of(&options, 0.9);
        assert!(!most.is_reached && most.is_per_sample);
        assert_eq!(
            most.sentence(),
            "−90 % is out of reach; the most is −50.0 % per sample, iteration 1 ns, by: resize-batch 64"
        );
        options.clear();
        assert_eq!(Goal::of(&options, 0.125).sentence(), "−12.5 % is out of reach: no edit gains");
    }

    #[test]
    fn goals_are_shares_with_or_without_sign_and_unit() {
        assert!(["-20%", "20", "−20 %", " 20% "].iter().all(|text| parse_target(text) == Ok(0.2)));
        assert_eq!(Goal::of(&[], 0.07).percent().to_string(), "7");
        assert!(["0%", "100", "", "%", "20%%", "x", "nan", "--"].iter().all(|text| parse_target(text).is_err()));
    }
}
