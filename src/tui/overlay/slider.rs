//! The batch slider: halves, doubles, or takes a typed size; every change is re-timed at once.

/// Its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slider {
    /// The size in force.
    pub size: u64,
    /// The size when it was opened.
    pub opened: u64,
    /// Digits typed so far.
    pub typed: String,
}

/// The largest batch that can be asked for.
const MOST: u64 = 1 << 32;

impl Slider {
    /// A slider at `size`.
    pub fn new(size: u64) -> Self {
        Self { size, opened: size, typed: String::new() }
    }

    /// Doubles or halves the size.
    pub fn slide(&mut self, is_up: bool) {
        self.typed.clear();
        self.size = if is_up { (self.size * 2).min(MOST) } else { (self.size / 2).max(1) };
    }

    /// Adds one or takes one away.
    pub fn nudge(&mut self, is_up: bool) {
        self.typed.clear();
        self.size = if is_up { (self.size + 1).min(MOST) } else { (self.size - 1).max(1) };
    }

    /// Takes a typed digit.
    pub fn digit(&mut self, digit: char) {
        self.typed.push(digit);
        self.read();
    }

    /// Takes the last digit away.
    pub fn erase(&mut self) {
        self.typed.pop();
        self.read();
    }

    fn read(&mut self) {
        match self.typed.parse::<u64>() {
            Ok(size) if (1..=MOST).contains(&size) => self.size = size,
            Ok(_) => {
                self.typed.pop();
            }
            Err(_) => self.size = self.opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_typed_doubled_and_never_zero() {
        let mut slider = Slider::new(64);
        for digit in "1000".chars() {
            slider.digit(digit);
        }
        assert_eq!(slider.size, 1000);
        slider.erase();
        assert_eq!(slider.size, 100);
        slider.slide(true);
        assert_eq!((slider.size, slider.typed.as_str()), (200, ""));
        slider.digit('0');
        assert_eq!(slider.size, 200);
        let mut least = Slider::new(1);
        least.slide(false);
        assert_eq!(least.size, 1);
    }
}
