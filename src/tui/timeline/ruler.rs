//! The ruler: ticks at round times, counted from the start of the iteration.

use retime_core::units::DurNs;

use super::span::Span;

/// Columns that a label may take.
const LABEL: f64 = 14.0;

/// Columns and labels of the ticks over `span` in `width` columns, times counted from `origin`.
pub fn ticks(span: Span, width: u16, origin: f64) -> Vec<(u16, String)> {
    let step = round_step((span.length() / f64::from(width.max(1)) * LABEL).max(1.0));
    let first = ((span.from - origin) / step).ceil() as i64;
    let last = ((span.to - origin) / step).floor() as i64;
    let tick = |index: i64| {
        let time = index as f64 * step;
        Some((span.column_of(time + origin, width)?, label(time, step)))
    };
    (first..=last).filter_map(tick).collect()
}

/// The least of 1, 2, 5 times a power of ten that is not below `least`.
pub fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 5.0, 10.0].iter().map(|factor| factor * power).find(|&step| step >= least).unwrap_or(power * 10.0)
}

/// Round amounts from none to `most`, in `count` steps at most; of bytes in their own units.
pub fn round_amounts(most: f64, count: u16, are_bytes: bool) -> Vec<f64> {
    let unit = if are_bytes { 1024_f64.powf((most.max(1.0).log2() / 10.0).floor()) } else { 1.0 };
    let step = round_step(most / unit / f64::from(count.max(1))) * unit;
    (0..=count).map(|tick| f64::from(tick) * step).take_while(|amount| *amount <= most).collect()
}

/// `time` in the unit in which `step` is told apart.
fn label(time: f64, step: f64) -> String {
    if time == 0.0 {
        return "0".to_owned();
    }
    let (unit, size) = match time.abs().max(step) {
        t if t < 1e3 => ("ns", 1.0),
        t if t < 1e6 => ("µs", 1e3),
        t if t < 1e9 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let digits = (size / step).log10().ceil().max(0.0) as usize;
    format!("{:.digits$} {unit}", time / size)
}

/// `duration` as a short figure with a sign, for differences.
pub fn signed(duration: DurNs) -> String {
    if duration.0 > 0 { format!("+{duration}") } else { duration.to_string().replace('-', "−") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_told_apart() {
        let shown = ticks(Span { from: 0.0, to: 10e6 }, 100, 0.0);
        assert_eq!(shown[..3], [(0, "0".to_owned()), (20, "2 ms".to_owned()), (40, "4 ms".to_owned())]);
        let fine = ticks(Span { from: 12_345_000.0, to: 12_346_000.0 }, 60, 0.0);
        assert_eq!(fine[1].1, "12.3455 ms");
        assert_eq!(round_amounts(3058.0, 5, false), [0.0, 1000.0, 2000.0, 3000.0]);
        assert_eq!(round_amounts(86.4 * 1024_f64.powi(3), 3, true).last(), Some(&(50.0 * 1024_f64.powi(3))));
        let before = ticks(Span { from: 0.0, to: 100e3 }, 50, 50e3);
        assert_eq!(before[0].1, "-50 µs");
    }
}
