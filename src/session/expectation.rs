//! Expectations such as `iteration < 40ms` or `replay_error within 1%`, held against the figures of a scenario.

use retime_core::scenario::StepError;
use retime_core::units::{Bytes, DurNs, Percent, SHARE_UNITS, SIZE_UNITS, TIME_UNITS, parse_quantity};

use super::{Outcome, Summary};

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Time,
    Share,
    Bytes,
    Count,
    /// Steps of the scenario.
    Steps,
}

/// A figure of a scenario.
struct Figure {
    name: &'static str,
    unit: Unit,
    of: fn(&Outcome) -> Option<f64>,
}

const FIGURES: &[Figure] = &[
    Figure { name: "iteration", unit: Unit::Time, of: |outcome| Some(outcome.summary.steady_ns.0 as f64) },
    Figure { name: "measured", unit: Unit::Time, of: |outcome| Some(outcome.summary.measured_ns.0 as f64) },
    Figure { name: "base", unit: Unit::Time, of: |outcome| Some(outcome.summary.base_steady_ns.0 as f64) },
    Figure { name: "window", unit: Unit::Time, of: |outcome| Some(outcome.summary.simulated_ns.0 as f64) },
    Figure { name: "gain", unit: Unit::Share, of: |outcome| gain(&outcome.summary) },
    Figure { name: "replay_error", unit: Unit::Share, of: |outcome| outcome.summary.replay_error },
    Figure { name: "replay", unit: Unit::Share, of: |outcome| outcome.summary.replay_error.map(f64::abs) },
    Figure { name: "unexplained", unit: Unit::Share, of: |outcome| Some(outcome.summary.unexplained_share) },
    Figure { name: "not-modelled", unit: Unit::Share, of: |outcome| Some(outcome.summary.unmodelled_share) },
    Figure { name: "unmodelled", unit: Unit::Share, of: |outcome| Some(outcome.summary.unmodelled_share) },
    Figure { name: "no-effect", unit: Unit::Steps, of: |outcome| Some(outcome.without_effect().count() as f64) },
    Figure { name: "gpu_busy", unit: Unit::Share, of: |outcome| Some(outcome.summary.steady_gpu_busy) },
    Figure { name: "gpu_active", unit: Unit::Time, of: |outcome| Some(outcome.summary.gpu_active_ns.0 as f64) },
    Figure { name: "kernel_only", unit: Unit::Time, of: |outcome| Some(outcome.summary.kernel_only_ns.0 as f64) },
    Figure { name: "memory", unit: Unit::Bytes, of: |outcome| Some(outcome.summary.memory_bytes?.0 as f64) },
    Figure { name: "batch", unit: Unit::Count, of: |outcome| Some(outcome.summary.batch?.1 as f64) },
    Figure {
        name: "ranks",
        unit: Unit::Count,
        of: |outcome| Some(outcome.summary.ranks.iter().map(|rank| f64::from(rank.count)).sum()),
    },
];

/// What the iteration loses in time against the untouched replay, as a share of that.
fn gain(summary: &Summary) -> Option<f64> {
    let base = summary.base_steady_ns.0 as f64;
    (base > 0.0).then(|| 1.0 - summary.steady_ns.0 as f64 / base)
}

/// How a figure is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Test {
    Below(f64),
    AtMost(f64),
    Above(f64),
    AtLeast(f64),
    Equal(f64),
    /// No further than a share of the second number away from it; for shares around 0: than the first number.
    Within(f64, f64),
}

/// A figure, a comparison and a value.
pub struct Expectation {
    text: String,
    figure: &'static Figure,
    test: Test,
}

/// Whether an expectation holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The expectation as written.
    pub expected: String,
    /// What the figure is.
    pub got: String,
    /// Whether it holds.
    pub holds: bool,
}

impl Expectation {
    /// Reads `no-effect`, `FIGURE < VALUE` (also `<=`, `>`, `>=`, `=`), `FIGURE within SHARE` of nothing, or `FIGURE within SHARE of VALUE`.
    ///
    /// # Errors
    /// An unknown figure with the nearest, or a value that cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "expected FIGURE < VALUE (or <=, >, >=, =), or FIGURE within PERCENT [of VALUE]";
        let text = text.trim();
        let end = text.find(|c: char| !(c.is_alphanumeric() || "_-".contains(c))).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let names = || FIGURES.iter().map(|figure| figure.name);
        let figure = FIGURES.iter().find(|figure| figure.name == name);
        let figure = figure.ok_or_else(|| StepError::unknown(1, "figure", name, names()).message)?;
        let rest = rest.trim();
        let value = |text: &str| value(text, figure.unit);
        let test = if rest.is_empty() && figure.unit == Unit::Steps {
            Test::AtLeast(1.0)
        } else if let Some(rest) = rest.strip_prefix("within ") {
            match rest.split_once(" of ") {
                Some((share, middle)) => Test::Within(self::value(share, Unit::Share)?, value(middle)?),
                None if figure.unit == Unit::Share => Test::Within(value(rest)?, 0.0),
                None => return Err(format!("`within {rest}` of what? {FORM}")),
            }
        } else if let Some(rest) = rest.strip_prefix("<=") {
            Test::AtMost(value(rest)?)
        } else if let Some(rest) = rest.strip_prefix(">=") {
            Test::AtLeast(value(rest)?)
        } else if let Some(rest) = rest.strip_prefix('<') {
            Test::Below(value(rest)?)
        } else if let Some(rest) = rest.strip_prefix('>') {
            Test::Above(value(rest)?)
        } else if let Some(rest) = rest.strip_prefix('=') {
            Test::Equal(value(rest.trim_start_matches('='))?)
        } else {
            return Err(FORM.to_owned());
        };
        Ok(Self { text: text.to_owned(), figure, test })
    }

    /// Whether it takes steps without effect for granted.
    pub fn is_of_no_effect(&self) -> bool {
        self.figure.unit == Unit::Steps
    }

    /// Holds it against `outcome`; a figure that is not known holds nothing.
    pub fn check(&self, outcome: &Outcome) -> Verdict {
        self.judge((self.figure.of)(outcome))
    }

    fn judge(&self, figure: Option<f64>) -> Verdict {
        let (holds, unit) = (figure.is_some_and(|figure| self.test.holds(figure)), self.figure.unit);
        let got = figure.map_or("not known".to_owned(), |figure| {
            let short = shown(figure, unit);
            if holds || short != shown(self.test.value(), unit) { short } else { exact(figure, unit) }
        });
        Verdict { expected: self.text.clone(), got: format!("{} {got}", self.figure.name), holds }
    }
}

impl Test {
    /// What the figure is compared with.
    fn value(self) -> f64 {
        match self {
            Self::Below(value)
            | Self::AtMost(value)
            | Self::Above(value)
            | Self::AtLeast(value)
            | Self::Equal(value)
            | Self::Within(_, value) => value,
        }
    }

    fn holds(self, figure: f64) -> bool {
        match self {
            Self::Below(value) => figure < value,
            Self::AtMost(value) => figure <= value,
            Self::Above(value) => figure > value,
            Self::AtLeast(value) => figure >= value,
            // As far as a number with a unit can be read: 1.1 ms is not quite a whole number of ns.
            Self::Equal(value) => (figure - value).abs() <= 4.0 * f64::EPSILON * value.abs(),
            Self::Within(share, 0.0) => figure.abs() <= share,
            Self::Within(share, middle) => (figure - middle).abs() <= share * middle.abs(),
        }
    }
}

/// A number with its unit, in ns, as a fraction, in bytes, or plain.
fn value(text: &str, unit: Unit) -> Result<f64, String> {
    let (units, bare, example) = match unit {
        Unit::Time => (TIME_UNITS, None, "a time such as 40ms"),
        Unit::Share => (SHARE_UNITS, Some(1.0), "a share such as 1% or 0.01"),
        Unit::Bytes => (SIZE_UNITS, None, "a size such as 16GiB"),
        Unit::Count | Unit::Steps => (&[][..], Some(1.0), "a number"),
    };
    parse_quantity(text, units, bare).ok_or_else(|| format!("`{}`: expected {example}", text.trim()))
}

fn shown(figure: f64, unit: Unit) -> String {
    match unit {
        Unit::Time => DurNs(figure as i64).to_string(),
        Unit::Share => format!("{:.3}", Percent(figure)),
        Unit::Bytes => Bytes(figure as u64).to_string(),
        Unit::Count | Unit::Steps => figure.to_string(),
    }
}

/// All digits, where a few do not tell a figure from what was expected.
fn exact(figure: f64, unit: Unit) -> String {
    match unit {
        Unit::Time => format!("{figure} ns"),
        Unit::Share => format!("{} %", 100.0 * figure),
        Unit::Bytes => format!("{figure} B"),
        Unit::Count | Unit::Steps => figure.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, figure: f64) -> bool {
        Expectation::parse(text).unwrap().test.holds(figure)
    }

    fn error(text: &str) -> String {
        Expectation::parse(text).err().unwrap()
    }

    #[test]
    fn values_are_read_with_their_units() {
        assert!(holds("iteration < 40ms", 39.9e6) && !holds("iteration < 40 ms", 40e6));
        assert!(holds("iteration<=40000us", 40e6) && holds("iteration >= 2s", 2e9));
        assert!(holds("memory < 1GiB", 1e9) && !holds("memory < 1GB", 1e9));
        assert!(holds("replay_error within 1%", -0.009) && !holds("replay_error within 1%", -0.011));
        assert!(holds("iteration within 5% of 10ms", 10.4e6) && !holds("iteration within 5% of 10ms", 10.6e6));
        assert!(holds("batch = 256", 256.0) && !holds("batch = 256", 257.0));
        assert!(!holds("batch = 512.0000001", 512.0) && !holds("iteration = 40ms", 40_000_001.0));
        for milliseconds in [0.7, 1.1, 40.3, 999.999, 123_456.789] {
            let whole: f64 = milliseconds * 1e6;
            assert!(holds(&format!("iteration = {milliseconds}ms"), whole.round()), "{milliseconds}");
        }
    }

    #[test]
    fn a_figure_that_looks_like_what_was_expected_is_told_with_all_its_digits() {
        let got = |text: &str, figure: f64| Expectation::parse(text).unwrap().judge(Some(figure)).got;
        assert_eq!(got("iteration = 40ms", 40_000_001.0), "iteration 40000001 ns");
        assert_eq!(got("iteration < 40ms", 40_000_000.0), "iteration 40000000 ns");
        assert_eq!(got("iteration < 40ms", 51e6), "iteration 51.00 ms");
        assert_eq!(got("memory = 1GiB", 1_073_741_825.0), "memory 1073741825 B");
    }

    #[test]
    fn what_cannot_be_read_says_what_was_expected() {
        assert!(error("iteraton < 4ms").contains("did you mean `iteration`?"));
        assert!(error("iteration < 40").contains("a time such as 40ms"));
        assert!(error("iteration within 5%").contains("of what?"));
        assert!(error("iteration").contains("expected FIGURE"));
    }
}
