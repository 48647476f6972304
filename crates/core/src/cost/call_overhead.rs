//! What a host adds to the kernels of whole calls that were timed by events around them.
//!
//! The host takes `h` to issue a call. A part `b` of that passes after the first event and before the kernel starts; the rest runs while
//! the kernel does, and the last event comes when both are done: `max(h, b·h + k)`, with its corner rounded. (Of `NeuSight`'s tables an addition on
//! V100 is 32 µs or its traffic and 16 µs, on P100 45 or its traffic and 22.)

/// The call overhead of one table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallOverhead {
    /// What the host takes to issue one, in µs; 0 where kernels were measured.
    pub us: f64,
    /// Part of it that passes before the kernel starts.
    pub before: f64,
}

/// How sharp the corner is.
const CORNER: i32 = 16;

/// Part of a call overhead that passes before the kernel where it was not fitted.
pub const BEFORE: f64 = 0.5;

impl CallOverhead {
    /// Before the kernel starts, in µs.
    fn lead_us(self) -> f64 {
        self.us * self.before
    }

    /// What a call takes whose kernel takes `kernel_us`.
    pub fn call_us(self, kernel_us: f64) -> f64 {
        if self.us <= 0.0 {
            return kernel_us;
        }
        let issued = (self.lead_us() + kernel_us) / self.us;
        if issued > 1e6 {
            return self.lead_us() + kernel_us;
        }
        self.us * (1.0 + issued.powi(CORNER)).powf(1.0 / f64::from(CORNER))
    }

    /// Relative change of a call over that of its kernel: `d ln call / d ln kernel` where the kernel takes `kernel_us`.
    pub fn sensitivity(self, kernel_us: f64) -> f64 {
        let (call, issued) = (self.call_us(kernel_us), self.lead_us() + kernel_us);
        if call > 0.0 && issued > 0.0 { (issued / call).powi(CORNER) * kernel_us / issued } else { 0.0 }
    }

    /// What the kernel of a call takes that is well longer than the floor.
    pub fn kernel_us(self, call_us: f64) -> f64 {
        (call_us - self.lead_us()).max(1e-3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_call_takes_what_its_host_takes_and_a_long_one_its_kernel_and_what_comes_before() {
        let host = CallOverhead { us: 40.0, before: 0.5 };
        assert!((host.call_us(2.0) - 40.0).abs() < 0.01 && host.sensitivity(2.0) < 0.01);
        assert!((host.call_us(400.0) - 420.0).abs() < 0.01 && (host.sensitivity(400.0) - 400.0 / 420.0).abs() < 1e-6);
        assert!((host.kernel_us(host.call_us(400.0)) - 400.0).abs() < 0.01);
    }

    #[test]
    fn the_sensitivity_is_how_a_call_follows_its_kernel() {
        let host = CallOverhead { us: 40.0, before: 0.3 };
        for kernel in [5.0, 20.0, 30.0, 60.0, 1e8] {
            let step = 1e-6;
            let slope = (host.call_us(kernel * (1.0 + step)) / host.call_us(kernel)).ln() / step;
            assert!((slope - host.sensitivity(kernel)).abs() < 1e-3, "{kernel}");
        }
        let none = CallOverhead { us: 0.0, before: 0.5 };
        assert_eq!((none.call_us(3.0), none.sensitivity(3.0)), (3.0, 1.0));
    }
}
