//! The part of time that is shown, and how it zooms and pans.

use retime_core::units::TimeNs;

/// A range of time in ns that fills the width of the timeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Left edge.
    pub from: f64,
    /// Right edge.
    pub to: f64,
}

/// The least time shown.
const LEAST_NS: f64 = 20.0;

impl Span {
    /// From one instant to another; at least [`LEAST_NS`] long.
    pub fn new(from: TimeNs, to: TimeNs) -> Self {
        let (from, to) = (from.0 as f64, to.0 as f64);
        Self { from, to: to.max(from + LEAST_NS) }
    }

    /// Its length in ns.
    pub fn length(self) -> f64 {
        self.to - self.from
    }

    /// Its middle.
    pub fn middle(self) -> f64 {
        f64::midpoint(self.from, self.to)
    }

    /// The time at the left edge of `column` of `width`.
    pub fn time_at(self, column: f64, width: u16) -> f64 {
        self.from + self.length() * column / f64::from(width.max(1))
    }

    /// The column of `width` in which `time` lies; `None` outside.
    pub fn column_of(self, time: f64, width: u16) -> Option<u16> {
        let column = (time - self.from) / self.length() * f64::from(width);
        (0.0..f64::from(width)).contains(&column).then_some(column as u16)
    }

    /// The column of `width` in which `time` lies, or the edge that is nearer to it.
    pub fn column_clamped(self, time: f64, width: u16) -> u16 {
        let column = (time - self.from) / self.length() * f64::from(width);
        column.clamp(0.0, f64::from(width.saturating_sub(1))) as u16
    }

    /// Shows `factor` times as much time, `pivot` staying where it is, within `bounds`.
    #[must_use]
    pub fn zoomed(self, factor: f64, pivot: f64, bounds: Self) -> Self {
        let length = (self.length() * factor).clamp(LEAST_NS, bounds.length().max(LEAST_NS));
        let share = ((pivot - self.from) / self.length()).clamp(0.0, 1.0);
        let from = pivot - length * share;
        Self { from, to: from + length }.within(bounds)
    }

    /// Moves by `share` of its length, within `bounds`.
    #[must_use]
    pub fn panned(self, share: f64, bounds: Self) -> Self {
        let by = self.length() * share;
        Self { from: self.from + by, to: self.to + by }.within(bounds)
    }

    /// Moves as little as possible so that `time` is not nearer to an edge than a tenth.
    #[must_use]
    pub fn showing(self, time: f64, bounds: Self) -> Self {
        let margin = self.length() / 10.0;
        let by = if time < self.from + margin {
            time - self.from - margin
        } else if time > self.to - margin {
            time - self.to + margin
        } else {
            return self;
        };
        Self { from: self.from + by, to: self.to + by }.within(bounds)
    }

    fn within(self, bounds: Self) -> Self {
        let length = self.length().min(bounds.length().max(LEAST_NS));
        let from = self.from.clamp(bounds.from, (bounds.to - length).max(bounds.from));
        Self { from, to: from + length }
    }

    /// A little more on both sides, so that edges are seen.
    #[must_use]
    pub fn with_margin(self) -> Self {
        let margin = self.length() * 0.02;
        Self { from: self.from - margin, to: self.to + margin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Span = Span { from: 0.0, to: 1000.0 };

    #[test]
    fn zooming_keeps_the_time_under_the_pointer() {
        let zoomed = Span { from: 200.0, to: 600.0 }.zoomed(0.5, 300.0, BOUNDS);
        assert_eq!(zoomed, Span { from: 250.0, to: 450.0 });
        assert_eq!(BOUNDS.zoomed(2.0, 10.0, BOUNDS), BOUNDS);
        assert!(zoomed.zoomed(1e-9, 300.0, BOUNDS).length() >= LEAST_NS);
    }

    #[test]
    fn panning_stops_at_the_bounds() {
        let span = Span { from: 200.0, to: 600.0 };
        assert!(span.panned(-1.0, BOUNDS).from.abs() < 1e-9);
        assert_eq!(span.panned(5.0, BOUNDS), Span { from: 600.0, to: 1000.0 });
    }

    #[test]
    fn columns_and_times_agree() {
        assert_eq!(BOUNDS.column_of(BOUNDS.time_at(30.0, 100), 100), Some(30));
        assert_eq!((BOUNDS.column_of(-1.0, 100), BOUNDS.column_of(1000.0, 100)), (None, None));
    }

    #[test]
    fn showing_moves_only_when_the_time_is_at_an_edge() {
        let span = Span { from: 200.0, to: 300.0 };
        assert_eq!(span.showing(250.0, BOUNDS), span);
        assert_eq!(span.showing(400.0, BOUNDS), Span { from: 310.0, to: 410.0 });
    }
}
