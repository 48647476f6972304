//! Occupancy: how many of the threads that a multiprocessor can hold a kernel keeps resident.
//!
//! Knows no trace: what was launched is given.

use crate::device::DeviceProfile;

/// How a kernel was launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Blocks.
    pub blocks: u64,
    /// Threads per block.
    pub threads: u32,
    /// Registers per thread.
    pub registers: u32,
    /// Shared memory per block in bytes.
    pub shared: u32,
}

/// Threads of a warp.
const WARP: u32 = 32;
/// Registers are given to warps in such pieces, warps to the four parts of a multiprocessor in turn.
const REGISTERS_AT_ONCE: u32 = 256;
const WARPS_AT_ONCE: u32 = 4;

/// Share of the threads `device` can hold that a kernel launched as `launch` keeps resident: as many blocks as threads, blocks,
/// registers and shared memory of a multiprocessor allow, and no more than the grid has for each. `None` where the launch (whole,
/// registers too) or the limits are not known, or a block fits nowhere.
///
/// Source: the rules of NVIDIA's occupancy calculator; the profiler's estimate follows the same.
pub fn occupancy(launch: Launch, device: &DeviceProfile) -> Option<f64> {
    let limits = device.sm_limits.filter(|_| launch.threads > 0 && launch.blocks > 0 && launch.registers > 0)?;
    let warps = launch.threads.div_ceil(WARP);
    let by_threads = limits.threads / WARP / warps;
    let registers = launch.registers.checked_mul(WARP)?.checked_next_multiple_of(REGISTERS_AT_ONCE)?;
    let by_registers = (limits.registers / registers) / WARPS_AT_ONCE * WARPS_AT_ONCE / warps;
    let by_shared = match launch.shared {
        0 => u32::MAX,
        each => u32::try_from(limits.shared.0 / u64::from(each)).unwrap_or(u32::MAX),
    };
    let resident = by_threads.min(limits.blocks).min(by_registers).min(by_shared);
    let there = launch.blocks as f64 / f64::from(device.sm_count.max(1));
    let share = f64::from(resident).min(there) * f64::from(warps) * f64::from(WARP) / f64::from(limits.threads);
    (resident > 0).then_some(share.min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Catalog;

    fn on(device: &str, blocks: u64, threads: u32, registers: u32, shared: u32) -> Option<f64> {
        let catalog = Catalog::builtin().unwrap();
        occupancy(Launch { blocks, threads, registers, shared }, catalog.find(device).unwrap())
    }

    #[test]
    fn each_limit_binds_as_worked_out_by_hand() {
        let near = |found: Option<f64>, wanted: f64| (found.unwrap() - wanted).abs() < 1e-9;
        // 64 warps a multiprocessor: eight blocks of eight warps.
        assert!(near(on("V100", 10_000, 256, 32, 0), 1.0));
        // 32 blocks of one warp.
        assert!(near(on("V100", 10_000, 32, 16, 0), 0.5));
        // 255 registers → 8192 a warp, 8 warps, two blocks of four.
        assert!(near(on("V100", 10_000, 128, 255, 0), 8.0 / 64.0));
        // More registers than any register file has, more threads than any block may have.
        assert_eq!((on("V100", 1, 32, 1 << 27, 0), on("V100", 1, 32, u32::MAX, 0)), (None, None));
        assert_eq!(on("V100", u64::MAX, u32::MAX, 32, u32::MAX), None);
        // Two blocks of 48 KiB in 96 KiB.
        assert!(near(on("V100", 10_000, 256, 32, 48 << 10), 16.0 / 64.0));
        // Forty blocks on eighty multiprocessors: half a block of eight warps each.
        assert!(near(on("V100", 40, 256, 32, 0), 4.0 / 64.0));
    }

    #[test]
    fn what_is_not_known_has_none() {
        assert_eq!(on("V100", 0, 256, 32, 0), None);
        assert_eq!(on("V100", 9, 256, 0, 0), None);
        assert_eq!(on("V100", 9, 256, 32, 1 << 20), None);
        assert_eq!(on("BLIMP", 9, 256, 32, 0), None);
    }
}
