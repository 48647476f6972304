//! Predictions against measurements, what they come to, and how two naive guesses would have done on the same rows.
//!
//! Must not know where rows come from.

use retime_core::cost::trace_error::CLAIMED;
use serde::Serialize;

use super::operators::Part;
use super::reasons;

/// Of a row within its limit, and of a family that reaches its aim.
pub(crate) const MET: &str = "met";
/// Of one that is not, or does not.
pub(crate) const MISSED: &str = "missed";

/// Whether the constants behind a prediction were fitted on what it is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Constants {
    /// No constant was fitted on these measurements or on captures of the same model.
    HeldOut,
    /// Some were.
    Seen,
}

impl Constants {
    fn name(self) -> &'static str {
        match self {
            Self::HeldOut => "held out",
            Self::Seen => "seen",
        }
    }
}

/// What guesses without a model say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Naive {
    /// Everything goes with the batch size, or with the bandwidth of the device's memory; in ns.
    pub(crate) scaled: f64,
    /// Nothing changes; in ns.
    pub(crate) unchanged: f64,
}

/// One prediction against its measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) check: String,
    /// What it is summed up with.
    pub(crate) family: String,
    /// Measured, in ns.
    pub(crate) expected: f64,
    /// Predicted, in ns.
    pub(crate) got: f64,
    /// `got/expected − 1`.
    pub(crate) error: f64,
    /// Recorded steps that the prediction is the median over, or 1.
    pub(crate) n: usize,
    /// How far it may be off at most, either way.
    pub(crate) limit: f64,
    pub(crate) status: &'static str,
    /// Why it is further off, as far as the row tells.
    pub(crate) because: Option<String>,
    pub(crate) source: String,
    pub(crate) constants: Constants,
    pub(crate) naive: Option<Naive>,
    /// The stated band, in ns.
    pub(crate) band: Option<[f64; 2]>,
    /// Operator by operator, where both were traced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<Part>,
}

impl Row {
    /// A row that is to be within `limit` of the measurement.
    pub(crate) fn new(
        family: impl Into<String>,
        check: String,
        (expected, got): (f64, f64),
        limit: f64,
        (source, constants): (&str, Constants),
    ) -> Self {
        let error = got / expected - 1.0;
        let status = if error.abs() <= limit { MET } else { MISSED };
        let (family, source) = (family.into(), source.to_owned());
        let (naive, band, parts, because) = (None, None, Vec::new(), None);
        Self {
            check,
            family,
            expected,
            got,
            error,
            n: 1,
            limit,
            status,
            because,
            source,
            constants,
            naive,
            band,
            parts,
        }
    }

    /// With what guesses say.
    pub(crate) fn against(mut self, scaled: f64, unchanged: f64) -> Self {
        self.naive = Some(Naive { scaled, unchanged });
        self
    }

    /// The median over `n` recorded steps.
    pub(crate) fn over(mut self, n: usize) -> Self {
        self.n = n;
        self
    }

    /// With the stated band.
    pub(crate) fn within(mut self, [low, high]: [f64; 2]) -> Self {
        self.band = Some([low.min(high), high.max(low)]);
        self
    }

    /// With what each operator was to take and took.
    pub(crate) fn of(mut self, parts: Vec<Part>) -> Self {
        self.parts = parts;
        self
    }

    pub(crate) fn is_inside(&self) -> Option<bool> {
        self.band.map(|[low, high]| (low..=high).contains(&self.expected))
    }

    pub(crate) fn cells(&self) -> Vec<String> {
        let ms = |ns: f64| format!("{:.3}", ns / 1e6);
        vec![
            self.family.clone(),
            self.check.clone(),
            ms(self.expected),
            ms(self.got),
            format!("{:+.1}", 100.0 * self.error),
            self.n.to_string(),
            self.band.map_or("–".to_owned(), |[low, high]| format!("{} to {}", ms(low), ms(high))),
            self.constants.name().to_owned(),
            format!("{:.0}", 100.0 * self.limit),
            self.status.to_owned(),
            self.source.clone(),
            self.because.clone().unwrap_or_default(),
        ]
    }
}

/// Heads of [`Row::cells`].
pub(crate) const ROW: [&str; 12] = [
    "family",
    "check",
    "measured ms",
    "predicted ms",
    "error %",
    "n",
    "stated ms",
    "constants",
    "limit %",
    "limit",
    "source",
    "missed because",
];

/// What the rows of one family come to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    check: String,
    n: usize,
    /// Of which on measurements that no constant was fitted on.
    held_out: usize,
    /// `exp(mean |ln(got/expected)|) − 1`; for gains the share whose sign and size are right.
    got: f64,
    /// What it is to be.
    expected: f64,
    /// `exp(mean ln(got/expected)) − 1`: which way it leans; absent for gains.
    bias: Option<f64>,
    /// The same error where everything scales.
    scaled: Option<f64>,
    /// The same error where nothing changes.
    unchanged: Option<f64>,
    /// Share of measurements inside the stated band.
    inside: Option<f64>,
    /// How far measurements of the same are apart, or from themselves: what no prediction can do better than.
    noise: Option<f64>,
    status: &'static str,
    /// Why it was missed, as far as the rows tell.
    because: Option<String>,
}

impl Summary {
    pub(crate) fn cells(&self) -> Vec<String> {
        let percent = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{:.1}", 100.0 * share));
        vec![
            self.check.clone(),
            self.n.to_string(),
            self.held_out.to_string(),
            percent(Some(self.got)),
            self.bias.map_or("–".to_owned(), |bias| format!("{:+.1}", 100.0 * bias)),
            percent(self.scaled),
            percent(self.unchanged),
            percent(self.inside),
            percent(self.noise),
            format!("{:.0}", 100.0 * self.expected),
            self.status.to_owned(),
            self.because.clone().unwrap_or_default(),
        ]
    }
}

/// Heads of [`Summary::cells`].
pub(crate) const SUMMARY: [&str; 12] = [
    "what",
    "n",
    "held out",
    "error %",
    "leans %",
    "all scales %",
    "nothing changes %",
    "in band %",
    "captures differ %",
    "aim %",
    "aim",
    "missed because",
];

/// Rows so far, and what could not be checked.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Row>,
    pub(crate) summaries: Vec<Summary>,
    pub(crate) not_checked: Vec<String>,
    pub(crate) bands: Option<Calibration>,
    /// The same of captures of one kind of model, with bands as wide as the errors of the other kinds.
    pub(crate) left_out: Option<Calibration>,
    /// The same of single kernels moved to another GPU, against equal work traced there.
    pub(crate) swapped: Swapped,
    /// What no model could do better than.
    #[serde(skip)]
    pub(crate) floors: Vec<reasons::Floor>,
}

/// How often swapped kernels lie inside their bands, by how they were predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Swapped {
    /// By the ratio of a model to their traced time.
    pub(crate) anchored: Option<Calibration>,
    /// By a model alone.
    pub(crate) absolute: Option<Calibration>,
}

/// How often measurements lie inside the bands that are stated beside predictions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Calibration {
    /// Rows with a band.
    pub(crate) n: usize,
    /// Share of them inside.
    pub(crate) inside: f64,
    /// Share that bands of one standard deviation claim.
    pub(crate) claimed: f64,
}

impl Calibration {
    pub(crate) fn of(inside: &[bool]) -> Option<Self> {
        let within = inside.iter().filter(|inside| **inside).count();
        let share = within as f64 / inside.len() as f64;
        (!inside.is_empty()).then_some(Self { n: inside.len(), inside: share, claimed: CLAIMED })
    }
}

impl Answer {
    /// How many measurements lie inside the bands that are stated beside predictions, in a sentence each.
    pub(crate) fn coverage(&self) -> Vec<String> {
        let told = |calibration: Option<Calibration>, what: &str| {
            let Calibration { n, inside, claimed } = calibration?;
            Some(format!(
                "{:.0} % of {n} {what} lie inside the stated bands, which claim {:.0} %.",
                100.0 * inside,
                100.0 * claimed
            ))
        };
        let all = [
            told(self.bands, "measurements"),
            told(self.swapped.anchored, "single kernels moved to another GPU from their traced times"),
            told(self.swapped.absolute, "single kernels moved to another GPU by a model alone"),
            told(
                self.left_out,
                "measurements on captures, where the band of each kind of model is as wide as the errors of the others,",
            ),
        ];
        all.into_iter().flatten().collect()
    }

    /// Sums up the rows of `family` as a geometric mean that is to be at most `target`.
    pub(crate) fn sum_up(&mut self, family: &str, target: f64) {
        let rows: Vec<Row> = self.rows.iter().filter(|row| row.family == family).cloned().collect();
        self.sum_up_rows(family, &rows, target);
    }

    /// As [`sum_up`](Self::sum_up), of chosen rows.
    pub(crate) fn sum_up_rows(&mut self, check: &str, rows: &[Row], target: f64) {
        let logs = logs(rows, |row| Some(row.got));
        let Some(got) = spread(&logs) else { return };
        let bias = (logs.iter().sum::<f64>() / logs.len() as f64).exp_m1();
        let status = if got <= target { MET } else { MISSED };
        let n = logs.len();
        self.push(check, rows, Summary { n, got, expected: target, bias: Some(bias), ..Summary::none(status) });
    }

    /// Sums up the gains of `family`: the share whose rows passed.
    pub(crate) fn sum_up_gains(&mut self, family: &str, check: &str) {
        let rows: Vec<Row> = self.rows.iter().filter(|row| row.family == family).cloned().collect();
        if rows.is_empty() {
            return;
        }
        let got = rows.iter().filter(|row| row.status == MET).count() as f64 / rows.len() as f64;
        let status = if got >= 1.0 { MET } else { MISSED };
        self.push(check, &rows, Summary { n: rows.len(), got, expected: 1.0, ..Summary::none(status) });
    }

    /// Says why rows missed their limit, and counts how many measurements lie inside their bands, of all rows with one.
    pub(crate) fn conclude(&mut self) {
        for row in self.rows.iter_mut().filter(|row| row.status == MISSED) {
            row.because = Some(reasons::of_row(row, &self.floors));
        }
        let inside: Vec<bool> = self.rows.iter().filter_map(Row::is_inside).collect();
        self.bands = Calibration::of(&inside);
    }

    fn push(&mut self, check: &str, rows: &[Row], mut summary: Summary) {
        let inside: Vec<bool> = rows.iter().filter_map(Row::is_inside).collect();
        let share = |inside: &[bool]| inside.iter().filter(|&&inside| inside).count() as f64 / inside.len() as f64;
        check.clone_into(&mut summary.check);
        summary.held_out = rows.iter().filter(|row| row.constants == Constants::HeldOut).count();
        summary.scaled = spread(&logs(rows, |row| Some(row.naive?.scaled)));
        summary.unchanged = spread(&logs(rows, |row| Some(row.naive?.unchanged)));
        summary.inside = (!inside.is_empty()).then(|| share(&inside));
        summary.noise = reasons::noise(rows, &self.floors);
        summary.because = (summary.status == MISSED).then(|| reasons::because(rows, &self.floors));
        self.summaries.push(summary);
    }
}

impl Summary {
    fn none(status: &'static str) -> Self {
        Self {
            check: String::new(),
            n: 0,
            held_out: 0,
            got: 0.0,
            expected: 0.0,
            bias: None,
            scaled: None,
            unchanged: None,
            inside: None,
            noise: None,
            status,
            because: None,
        }
    }
}

fn logs(rows: &[Row], of: impl Fn(&Row) -> Option<f64>) -> Vec<f64> {
    rows.iter().filter_map(|row| Some((of(row)? / row.expected).ln())).filter(|log| log.is_finite()).collect()
}

/// `exp(mean |log|) − 1`.
fn spread(logs: &[f64]) -> Option<f64> {
    (!logs.is_empty()).then(|| (logs.iter().map(|log| log.abs()).sum::<f64>() / logs.len() as f64).exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_held_against_guesses_and_its_bands() {
        let mut answer = Answer::default();
        let row =
            |got, constants| Row::new("f", String::new(), (100.0, got), 0.1, ("s", constants)).against(200.0, 50.0);
        answer.rows.push(row(110.0, Constants::HeldOut).within([90.0, 130.0]));
        answer.rows.push(row(100.0 / 1.1, Constants::Seen).within([80.0, 99.0]));
        answer.sum_up("f", 0.1);
        let summary = &answer.summaries[0];
        assert!((summary.got - 0.1).abs() < 1e-9 && summary.bias.unwrap().abs() < 1e-9);
        assert!((summary.scaled.unwrap() - 1.0).abs() < 1e-9 && (summary.unchanged.unwrap() - 1.0).abs() < 1e-9);
        assert_eq!((summary.n, summary.held_out, summary.inside), (2, 1, Some(0.5)));
        answer.rows.push(row(100.0, Constants::HeldOut));
        answer.conclude();
        assert_eq!(answer.bands.map(|bands| (bands.n, bands.inside)), Some((2, 0.5)));
    }

    #[test]
    fn gains_are_counted() {
        let mut answer = Answer::default();
        answer.rows.push(Row::new("g", String::new(), (-5.0, -4.0), 0.5, ("s", Constants::HeldOut)));
        answer.rows.push(Row::new("g", String::new(), (-5.0, 4.0), 0.5, ("s", Constants::HeldOut)));
        answer.sum_up_gains("g", "gains");
        assert!((answer.summaries[0].got - 0.5).abs() < 1e-9);
    }
}
