//! Typed quantities: time in integer nanoseconds, bytes, floating point operations and their rates.
//!
//! Every quantity that crosses a module boundary is one of these; a bare number has its unit in its name.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A point in time: nanoseconds since the origin of its trace (the trace says what that is).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimeNs(pub i64);

/// A length of time in nanoseconds; negative only where a difference may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DurNs(pub i64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A number of floating point operations (a multiply-accumulate is two).
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Flop(pub f64);

/// Memory or link bandwidth in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BytesPerSec(pub f64);

/// Arithmetic throughput in FLOP per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlopPerSec(pub f64);

impl Bytes {
    /// No memory and no message that is told of is larger, four pebibytes: what was recorded beyond is no size.
    pub const MOST: Self = Self(1 << 52);
}

impl DurNs {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// The longest time that is told of an iteration or of a part of it, about 104 days: sums over all tasks stay far from what an
    /// integer holds, and a double counts them exactly.
    pub const LONGEST: Self = Self(1 << 53);

    /// A duration from seconds, rounded to the nearest nanosecond; saturates, and NaN becomes zero.
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as i64)
    }

    /// A duration from microseconds, rounded to the nearest nanosecond; saturates, and NaN becomes zero.
    pub fn from_us_f64(microseconds: f64) -> Self {
        Self((microseconds * 1e3).round() as i64)
    }

    /// This duration in seconds.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How many of `count` there are in a second where all take this long; 0, as not known, where they take no time.
    pub fn rate_of(self, count: f64) -> f64 {
        if self > Self::ZERO { count / self.secs() } else { 0.0 }
    }

    /// How long it is, whichever way it goes.
    #[must_use]
    pub fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }

    /// This duration multiplied by `factor`, rounded to the nearest nanosecond.
    #[must_use]
    pub fn scale(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as i64)
    }
}

impl TimeNs {
    /// The duration from `earlier` to here (negative when `earlier` is later).
    #[must_use]
    pub fn since(self, earlier: Self) -> DurNs {
        DurNs(self.0.saturating_sub(earlier.0))
    }
}

impl Add<DurNs> for TimeNs {
    type Output = Self;
    fn add(self, rhs: DurNs) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl Sub<DurNs> for TimeNs {
    type Output = Self;
    fn sub(self, rhs: DurNs) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl Add for DurNs {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for DurNs {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for DurNs {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl SubAssign for DurNs {
    fn sub_assign(&mut self, rhs: Self) {
        *self = *self - rhs;
    }
}

impl Neg for DurNs {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl Mul<f64> for DurNs {
    type Output = Self;
    fn mul(self, rhs: f64) -> Self {
        self.scale(rhs)
    }
}

impl Mul<i64> for DurNs {
    type Output = Self;
    fn mul(self, rhs: i64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}

impl std::iter::Sum for DurNs {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self(0), Add::add)
    }
}

/// How many elements a tensor of these sizes has; recorded sizes may be beyond all reason, their product saturates.
pub fn elements(dims: &[u64]) -> u64 {
    dims.iter().fold(1, |product: u64, &dim| product.saturating_mul(dim))
}

/// The sum of numbers that were recorded; saturates, as they may be beyond all reason.
pub fn total(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// Writes `value` with three or four significant digits.
fn significant(f: &mut fmt::Formatter<'_>, value: f64, unit: &str) -> fmt::Result {
    let magnitude = value.abs();
    let digits = if magnitude >= 100.0 {
        1
    } else if magnitude >= 1.0 {
        2
    } else {
        3
    };
    // Sums of nothing are -0.
    f.pad(&format!("{:.digits$} {unit}", value + 0.0))
}

impl fmt::Display for DurNs {
    /// `873 ns`, `4.25 µs`, `18.42 ms`, `2.00 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        match self.0.unsigned_abs() {
            0..1_000 => f.pad(&format!("{} ns", self.0)),
            1_000..1_000_000 => significant(f, ns / 1e3, "µs"),
            1_000_000..1_000_000_000 => significant(f, ns / 1e6, "ms"),
            _ => significant(f, ns / 1e9, "s"),
        }
    }
}

impl fmt::Display for TimeNs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DurNs(self.0).fmt(f)
    }
}

impl fmt::Display for Bytes {
    /// Binary units: `512 B`, `2.00 KiB`, `84.19 MiB`, `9.10 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEP: f64 = 1024.0;
        let bytes = self.0 as f64;
        match self.0 {
            0..1_024 => f.pad(&format!("{} B", self.0)),
            1_024..1_048_576 => significant(f, bytes / STEP, "KiB"),
            1_048_576..1_073_741_824 => significant(f, bytes / STEP.powi(2), "MiB"),
            _ => significant(f, bytes / STEP.powi(3), "GiB"),
        }
    }
}

/// Units of time, in ns.
pub const TIME_UNITS: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
/// Units of size, in bytes.
pub const SIZE_UNITS: &[(&str, f64)] = &[
    ("b", 1.0),
    ("k", 1024.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
];
/// Units of a share of one.
pub const SHARE_UNITS: &[(&str, f64)] = &[("%", 0.01)];

/// Reads a finite number and its unit in either case, `40ms`, `1.5 GiB`, `1e6 ns`.
///
/// # Arguments
/// `units`: names in lower case, each with what one of it is; `bare`: what a number without a unit is counted in, if it may stand alone.
pub fn parse_quantity(text: &str, units: &[(&str, f64)], bare: Option<f64>) -> Option<f64> {
    let text = text.trim();
    let end = text.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(0, |at| at + 1);
    let (digits, unit) = (&text[..end], text[end..].trim_start().to_lowercase());
    let factor = units.iter().find(|(name, _)| *name == unit).map(|&(_, factor)| factor);
    let factor = if unit.is_empty() { bare } else { factor };
    let value = digits.parse::<f64>().ok()? * factor?;
    value.is_finite().then_some(value)
}

impl FromStr for Bytes {
    type Err = String;

    /// Reads `512`, `64 MiB`, `12GiB`, `16gb`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = parse_quantity(text, SIZE_UNITS, Some(1.0)).map(f64::round);
        let bytes = bytes.filter(|bytes| (0.0..1e18).contains(bytes));
        bytes.map(|bytes| Self(bytes as u64)).ok_or_else(|| format!("`{text}`: expected a size such as 512MiB or 16GB"))
    }
}

/// `part` as a share of `whole`, from none to all of it; of nothing there is no part.
pub fn share(part: DurNs, whole: DurNs) -> f64 {
    if whole > DurNs::ZERO { (part.0 as f64 / whole.0 as f64).clamp(0.0, 1.0) } else { 0.0 }
}

/// A share of one that prints as a percentage with one digit, or with as many as the format asks for: `12.3 %`, `{:+.0}` gives `+12 %`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

impl Percent {
    /// `part` of `whole`; of nothing there is no part.
    pub fn of(part: DurNs, whole: DurNs) -> Self {
        Self(if whole > DurNs::ZERO { part.0 as f64 / whole.0 as f64 } else { 0.0 })
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (percent, digits) = (100.0 * self.0, f.precision().unwrap_or(1));
        // What is almost the whole is not told as the whole, and what is near that as exactly.
        let is_almost_whole = digits == 0 && (98.5..99.95).contains(&percent);
        let digits = if is_almost_whole { 1 } else { digits };
        if f.sign_plus() { write!(f, "{percent:+.digits$} %") } else { write!(f, "{percent:.digits$} %") }
    }
}

impl fmt::Display for Flop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            v if v < 1e6 => significant(f, v / 1e3, "kFLOP"),
            v if v < 1e9 => significant(f, v / 1e6, "MFLOP"),
            v if v < 1e12 => significant(f, v / 1e9, "GFLOP"),
            v => significant(f, v / 1e12, "TFLOP"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_with_a_fitting_unit() {
        let shown: Vec<String> = [0, 873, 4_250, 18_420_000, -1_500_000, 2_000_000_000, 123_456_789]
            .iter()
            .map(|&ns| DurNs(ns).to_string())
            .collect();
        assert_eq!(shown, ["0 ns", "873 ns", "4.25 µs", "18.42 ms", "-1.50 ms", "2.00 s", "123.5 ms"]);
    }

    #[test]
    fn sizes_are_read_with_decimal_and_binary_units() {
        let read = |text: &str| text.parse::<Bytes>().map(|bytes| bytes.0);
        assert_eq!((read("12GiB"), read("1.5 mb"), read("7")), (Ok(12 << 30), Ok(1_500_000), Ok(7)));
        assert!(["", "GiB", "-3", "3 parsecs", "1e99"].iter().all(|text| read(text).is_err()));
    }

    #[test]
    fn quantities_have_a_unit_that_is_known() {
        let time = |text| parse_quantity(text, TIME_UNITS, None);
        assert_eq!(
            (time("40 ms"), time("1e3ns"), time("-2µs"), time("3S")),
            (Some(4e7), Some(1e3), Some(-2e3), Some(3e9))
        );
        assert_eq!(
            (time("40"), time("40 parsecs"), time("ms"), time("1e999s"), time("")),
            (None, None, None, None, None)
        );
        assert_eq!(parse_quantity("12 %", SHARE_UNITS, Some(1.0)), Some(0.12));
    }

    #[test]
    fn shares_print_as_percentages() {
        assert_eq!(format!("{} {:.0} {:+.2}", Percent(0.1234), Percent(0.5), Percent(0.01)), "12.3 % 50 % +1.00 %");
        let near = [0.984, 0.991, 0.995, 1.0].map(|share| format!("{:.0}", Percent(share)));
        assert_eq!(near, ["98 %", "99.1 %", "99.5 %", "100 %"]);
        assert_eq!(Percent::of(DurNs(-1), DurNs(8)).to_string(), "-12.5 %");
        assert_eq!(Percent::of(DurNs(5), DurNs::ZERO).to_string(), "0.0 %");
    }

    #[test]
    fn a_share_is_between_none_and_all() {
        let of = |part, whole| Percent(share(DurNs(part), DurNs(whole))).to_string();
        assert_eq!([of(1, 4), of(9, 4), of(-1, 4), of(1, 0)], ["25.0 %", "100.0 %", "0.0 %", "0.0 %"]);
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(TimeNs(i64::MAX) + DurNs(1), TimeNs(i64::MAX));
        assert_eq!(DurNs(i64::MIN) - DurNs(1), DurNs(i64::MIN));
        assert_eq!(DurNs::from_secs_f64(f64::NAN), DurNs::ZERO);
        assert_eq!((DurNs(i64::MIN).abs(), DurNs(i64::MAX) * 2), (DurNs(i64::MAX), DurNs(i64::MAX)));
        assert_eq!(Bytes(1 << 40) * (1 << 40) + Bytes(1), Bytes(u64::MAX));
    }
}
