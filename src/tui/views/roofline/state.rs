//! What the user did to the roofline: what a point is, which roof is moved and how far.

use crate::tui::view_model::Rooflines;
use retime_core::analysis::operators::Level;

/// One of the three roofs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Roof {
    /// Arithmetic.
    Peak,
    /// Memory bandwidth.
    #[default]
    Memory,
    /// Network bandwidth.
    Network,
}

impl Roof {
    /// All of them, in the order of their factors.
    pub const ALL: [Self; 3] = [Self::Peak, Self::Memory, Self::Network];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Peak => "peak",
            Self::Memory => "memory",
            Self::Network => "network",
        }
    }

    /// The next one, around the end.
    #[must_use]
    pub fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }

    /// Whether a roof with this factor is not where the device has it.
    pub fn is_moved(factor: f64) -> bool {
        (factor - 1.0).abs() > 1e-9
    }
}

/// How far a roof can be moved either way.
const FARTHEST: f64 = 64.0;

/// The view's own state.
#[derive(Clone, Debug)]
pub struct RooflineState {
    /// What one point is.
    pub level: Level,
    /// Factors on the device's peak, memory and network.
    pub factors: [f64; 3],
    /// The roof that keys move.
    pub roof: Roof,
    /// Whether the mouse holds it.
    pub is_held: bool,
    /// Whether the lowest of the three planes is shown in place of the plots.
    pub is_planes: bool,
}

impl Default for RooflineState {
    fn default() -> Self {
        Self { level: Level::Kernel, factors: [1.0; 3], roof: Roof::default(), is_held: false, is_planes: false }
    }
}

impl RooflineState {
    /// Whether any roof is not where the device has it.
    pub fn is_moved(&self) -> bool {
        self.factors.into_iter().any(Roof::is_moved)
    }

    /// Moves `roof` to `factor` times the device's.
    pub fn set(&mut self, roof: Roof, factor: f64) {
        self.factors[roof as usize] = rounded(factor.clamp(1.0 / FARTHEST, FARTHEST));
    }

    /// Moves the chosen roof by `ratio`.
    pub fn move_by(&mut self, ratio: f64) {
        self.set(self.roof, self.factors[self.roof as usize] * ratio);
    }

    /// What one point is, in a word.
    pub fn level_name(&self) -> &'static str {
        name_of(self.level)
    }

    /// The level after this one, around the end.
    pub fn next_level(&self) -> Level {
        let at = Rooflines::LEVELS.iter().position(|&level| level == self.level).unwrap_or(0);
        Rooflines::LEVELS[(at + 1) % Rooflines::LEVELS.len()]
    }

    /// The level called `name`.
    pub fn level_named(name: &str) -> Option<Level> {
        Rooflines::LEVELS.into_iter().find(|&level| name_of(level) == name)
    }

    /// Takes factors as they are written: `peak x2 memory x1.5`; roofs that are not named go back.
    ///
    /// # Errors
    /// What cannot be read, in one line.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        let mut read = Self { factors: [1.0; 3], ..self.clone() };
        let mut words = text.split_whitespace();
        while let Some(name) = words.next() {
            let roof = Roof::ALL.into_iter().find(|roof| roof.name() == name);
            let roof = roof.ok_or_else(|| format!("`{name}`: expected peak, memory or network, each with xFACTOR"))?;
            let factor = words.next().and_then(|word| word.strip_prefix(['x', '×'])?.parse::<f64>().ok());
            let range = 1.0 / FARTHEST..=FARTHEST;
            let factor = factor.filter(|factor| range.contains(factor));
            read.set(roof, factor.ok_or_else(|| format!("{name}: expected xFACTOR from 1/64 to 64, e.g. x2"))?);
        }
        *self = read;
        Ok(())
    }
}

fn name_of(level: Level) -> &'static str {
    match level {
        Level::Kernel => "kernel",
        Level::Operator => "operator",
        Level::Module => "module",
        Level::Model => "model",
    }
}

/// `factor` with three significant digits: what is shown is what is put in force.
pub(super) fn rounded(factor: f64) -> f64 {
    let digits = 2 - factor.abs().max(1e-9).log10().floor() as i32;
    let scale = 10f64.powi(digits);
    let rounded = (factor * scale).round() / scale;
    if (rounded - 1.0).abs() < 0.004 { 1.0 } else { rounded }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "factors are set to these very numbers")]
mod tests {
    use super::*;

    #[test]
    fn a_roof_raised_and_lowered_again_is_the_devices_own() {
        let mut state = RooflineState::default();
        state.move_by(1.25);
        assert_eq!(state.factors, [1.0, 1.25, 1.0]);
        state.move_by(1.0 / 1.25);
        assert!(!state.is_moved());
        state.set(Roof::Peak, 1e9);
        assert_eq!(state.factors[0], 64.0);
    }

    #[test]
    fn factors_are_read_as_written_and_what_is_wrong_changes_nothing() {
        let mut state = RooflineState::default();
        state.read("peak x2 network x0.5").unwrap();
        assert_eq!(state.factors, [2.0, 1.0, 0.5]);
        assert!(state.read("roof x2").unwrap_err().contains("expected peak, memory or network"));
        assert!(state.read("memory 2").unwrap_err().contains("e.g. x2"));
        assert_eq!(state.factors, [2.0, 1.0, 0.5]);
        state.read("").unwrap();
        assert!(!state.is_moved());
    }
}
