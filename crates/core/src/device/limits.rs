//! What figures of devices can be: far beyond every machine there is, near enough that all that follows from them is finite.

use std::ops::RangeInclusive;

use super::file::Figure;
use super::profile::BandwidthCurve;

/// Arithmetic and traffic of no device reach more, in FLOP and bytes per second.
pub const MOST_FLOP_PER_SECOND: f64 = 1e18;
/// See [`MOST_FLOP_PER_SECOND`].
pub const MOST_BYTES_PER_SECOND: f64 = 1e15;

/// Peak rates, in TFLOP/s.
pub(super) const PEAK_TFLOPS: RangeInclusive<f64> = 1e-6..=MOST_FLOP_PER_SECOND / 1e12;
/// Rates of memories and links, in GB/s.
pub(super) const GB_S: RangeInclusive<f64> = 1e-6..=MOST_BYTES_PER_SECOND / 1e9;
/// Times of a call, a kernel's start, a transfer, in µs: up to an hour.
pub(crate) const TIME_US: RangeInclusive<f64> = 0.0..=3.6e9;
/// Sizes of transfers, in bytes.
pub(super) const SIZE_BYTES: RangeInclusive<f64> = 0.0..=1e18;
/// Relative errors.
pub(crate) const ERROR: RangeInclusive<f64> = 0.0..=1e3;
/// Factors on what a model says.
pub(crate) const FACTOR: RangeInclusive<f64> = 1e-6..=1e6;

/// What a figure can be.
pub(super) fn range(figure: Figure) -> RangeInclusive<f64> {
    match figure {
        Figure::SmCount => 1.0..=1e7,
        Figure::ClockMhz | Figure::ProcessNm => 1e-3..=1e6,
        Figure::L2Mib => 0.0..=1e9,
        Figure::MemoryGib => 1e-6..=1e9,
        Figure::L2GbS | Figure::DramGbS | Figure::DramMeasuredGbS | Figure::HostLinkGbS | Figure::PeerLinkGbS => GB_S,
        Figure::LaunchLatencyUs | Figure::KernelStartUs => TIME_US,
        Figure::ProductShare => 1e-3..=1.0,
        Figure::SmThreads | Figure::SmBlocks | Figure::SmRegisters => 1.0..=1e9,
        Figure::SmSharedKib | Figure::BoardW => 1e-3..=1e9,
    }
}

/// Whether a figure is a number of things.
pub(super) fn is_count(figure: Figure) -> bool {
    matches!(figure, Figure::SmCount | Figure::SmThreads | Figure::SmBlocks | Figure::SmRegisters)
}

/// A range in words: `a number from 1 to 1e7`.
pub(crate) fn words(range: &RangeInclusive<f64>) -> String {
    let short = |value: f64| {
        if (1e-3..1e4).contains(&value) || value == 0.0 { value.to_string() } else { format!("{value:e}") }
    };
    format!("a number from {} to {}", short(*range.start()), short(*range.end()))
}

/// A figure that cannot be, as a message has it: `1e300`, not its three hundred digits.
pub(crate) fn written(value: f64) -> String {
    let is_short = value == 0.0 || (1e-6..1e9).contains(&value.abs());
    if is_short { value.to_string() } else { format!("{value:e}") }
}

/// The key of a curve's figure that cannot be, what it is, and what it can be.
pub(super) fn wrong_in(curve: &BandwidthCurve) -> Option<(&'static str, f64, RangeInclusive<f64>)> {
    /// Parameters of the sigmoid: powers of ten of a rate, and of two of a size.
    const EXPONENT: RangeInclusive<f64> = -1e3..=1e3;
    let &BandwidthCurve { start_us, m1_bytes, m2_bytes, max_gb_s, height, midpoint, steepness, base } = curve;
    let figures = [
        ("start_us", start_us, TIME_US),
        ("m1_bytes", m1_bytes, SIZE_BYTES),
        ("m2_bytes", m2_bytes, m1_bytes.clamp(0.0, *SIZE_BYTES.end())..=*SIZE_BYTES.end()),
        ("max_gb_s", max_gb_s, GB_S),
        ("height", height, EXPONENT),
        ("midpoint", midpoint, EXPONENT),
        ("steepness", steepness, EXPONENT),
        ("base", base, EXPONENT),
    ];
    figures.into_iter().find(|(_, value, range)| !range.contains(value))
}

#[cfg(test)]
mod tests {
    use crate::device::Catalog;

    #[test]
    fn a_figure_of_many_digits_is_written_by_its_power_of_ten() {
        assert_eq!(
            [0.0, -12.5, 1_234_567.0, 1e300, 1e-7].map(super::written),
            ["0", "-12.5", "1234567", "1e300", "1e-7"]
        );
        let text = "[mine]\ninherits = \"V100\"\n[mine.figures]\ndram_gb_s = 1e300\n";
        let error = Catalog::with_files(&[("mine.toml".to_owned(), text.to_owned())]).unwrap_err().to_string();
        assert!(error.contains("dram_gb_s is 1e300: expected a number from"), "{error}");
    }
}
