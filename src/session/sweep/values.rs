//! The values of a sweep as people write them: `64..1024`, `0.5..2x5`, `1,2,4`.

use retime_core::scenario::grammar::Kind;

use super::Sweep;

impl Sweep {
    /// The values of `knob` that `text` tells, in its order, see [`Self::values_of`].
    ///
    /// # Errors
    /// As [`Self::new`] and [`Self::values_of`].
    pub fn parse(knob: &str, text: &str) -> Result<Self, String> {
        let sweep = Self::new(knob, Self::parse_values(text)?)?;
        sweep.values_of(text).map(|_| sweep)
    }

    /// The values that `text` tells, in rising order; whole ones where the knob has no others, but for what lies between the ends of a
    /// range, which is rounded.
    ///
    /// # Errors
    /// As [`Self::parse_values`] and [`Self::checked`], and of a fraction.
    pub fn values_of(&self, text: &str) -> Result<Vec<f64>, String> {
        let values = Self::parse_values(text)?;
        let is_told = |place: usize| !text.contains("..") || place == 0 || place == values.len() - 1;
        let told = values.iter().enumerate().filter(|&(place, _)| is_told(place));
        let fraction = told.map(|(_, value)| value).find(|value| value.fract() != 0.0);
        match fraction.filter(|_| matches!(self.kind(), Some(Kind::Whole(..)))) {
            Some(value) => Err(format!("{value} is no whole number")),
            None => self.checked(values),
        }
    }

    /// Parses `A..B` (doubling), `A..BxN` (N values, evenly spaced ratios when A > 0) or `A,B,C`.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse_values(text: &str) -> Result<Vec<f64>, String> {
        let number = |text: &str| {
            let value: f64 = text.trim().parse().map_err(|_| format!("`{text}` is no number"))?;
            if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(format!("`{text}` is out of range")) }
        };
        let Some((low, rest)) = text.split_once("..") else { return text.split(',').map(number).collect() };
        let (high, count) = match rest.split_once('x') {
            Some((high, count)) => (high, Some(count.parse::<usize>().map_err(|_| format!("`{count}` is no count"))?)),
            None => (rest, None),
        };
        let (low, high) = (number(low)?, number(high)?);
        if low > high || low <= 0.0 {
            return Err(format!("`{text}`: expected A..B with 0 < A ≤ B"));
        }
        match count {
            None => {
                Ok(std::iter::successors(Some(low), |value| Some(value * 2.0)).take_while(|&v| v <= high).collect())
            }
            Some(count @ 2..=10_000) => {
                // By logarithms: the ratio of the ends may be more than a number holds.
                let step = (high.ln() - low.ln()) / (count - 1) as f64;
                let inner = (1..count - 1).map(|index| rounded((low.ln() + step * index as f64).exp()));
                Ok(std::iter::once(low).chain(inner).chain([high]).collect())
            }
            Some(_) => Err("expected 2 to 10000 values".to_owned()),
        }
    }
}

/// A value with six figures, which is what a person would write.
fn rounded(value: f64) -> f64 {
    let unit = 10_f64.powf(5.0 - value.abs().log10().floor());
    let rounded = (value * unit).round() / unit;
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_double_or_are_evenly_spaced_in_ratio() {
        assert_eq!(Sweep::parse_values("64..512").unwrap(), [64.0, 128.0, 256.0, 512.0]);
        assert_eq!(Sweep::parse_values("1..4x3").unwrap(), [1.0, 2.0, 4.0]);
        assert_eq!(Sweep::parse_values("3,1").unwrap(), [3.0, 1.0]);
        for bad in ["0..4", "5..4", "a..b", "1..2x1", "NaN", "1..inf"] {
            assert!(Sweep::parse_values(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_between_the_ends_have_six_figures() {
        let written = |text: &str| Sweep::parse_values(text).unwrap().iter().map(f64::to_string).collect::<Vec<_>>();
        assert_eq!(written("0.5..4x5"), ["0.5", "0.840896", "1.41421", "2.37841", "4"]);
        assert_eq!(written("64..1048576x15")[11], "131072");
    }

    #[test]
    fn what_is_counted_has_no_fractions() {
        for (knob, text) in [("batch", "1.5,2"), ("accumulate", "1,2.5,4"), ("batch", "0.5..8")] {
            let error = Sweep::parse(knob, text).unwrap_err();
            assert!(error.contains("is no whole number"), "{knob} {text}: {error}");
        }
        assert_eq!(Sweep::parse("batch", "1..10x3").unwrap().values, [1.0, 3.0, 10.0]);
        assert_eq!(Sweep::parse("flops", "1.5,2").unwrap().values, [1.5, 2.0]);
    }
}
