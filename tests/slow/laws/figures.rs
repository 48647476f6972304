//! Laws of figures: more work takes no less, a better device or link no more, and faster kernels never lengthen an iteration.

use std::sync::Arc;

use rayon::prelude::*;
use retime::session::{Outcome, Sharding};
use retime_core::cost::Family;
use retime_core::device::{DeviceKind, DeviceProfile, LinkProfile};
use retime_core::graph::TaskKind;
use retime_core::scenario::Scenario;
use retime_core::units::Bytes;

use super::Violation;
use super::subject::{NOTHING, Subject, time, work_time};

pub const LAWS: &[&str] = &[BATCH, MEMORY, DEVICE, FIGURE, LINK, RANKS, LIMIT, FASTER];

const BATCH: &str = "more batch is less device work";
const MEMORY: &str = "more batch is less memory";
const DEVICE: &str = "a device that is better in every figure is slower";
const FIGURE: &str = "more of a figure of the device is slower";
const LINK: &str = "a link with more bandwidth and no more latency is slower";
const RANKS: &str = "more ranks on the same links make a collective faster";
const LIMIT: &str = "a tighter memory limit finds a better placement";
const FASTER: &str = "tasks that take less lengthen the iteration";

pub fn violations(subject: &Subject) -> Vec<Violation> {
    let laws: [fn(&Subject) -> Vec<Violation>; 7] = [batches, devices, figures, links, ranks, limits, faster];
    laws.par_iter().flat_map_iter(|law| law(subject)).collect()
}

/// The outcomes of the lines that this trace can take, in parallel.
fn outcomes(subject: &Subject, lines: &[String]) -> Vec<(String, Outcome)> {
    lines.par_iter().filter_map(|line| Some((line.clone(), subject.outcome(&[line.as_str()])?))).collect()
}

/// Whether a time is longer than another beyond what rounding makes.
fn is_longer(now: f64, before: f64) -> bool {
    now > before * 1.001 && now > before + NOTHING
}

fn ms(ns: f64) -> String {
    format!("{:.3}", ns / 1e6)
}

fn batches(subject: &Subject) -> Vec<Violation> {
    let Some(batch) = subject.graph().batch_size else { return Vec::new() };
    let lines: Vec<String> = [1, 2, 4, 16].map(|times| format!("resize-batch {}", batch * times)).into();
    let mut found = Vec::new();
    for pair in outcomes(subject, &lines).windows(2) {
        let [(_, less), (line, more)] = pair else { continue };
        let on_device = |kind: TaskKind| kind.is_device() || kind == TaskKind::Compute;
        let (before, now) = (work_time(less, on_device).0 as f64, work_time(more, on_device).0 as f64);
        if is_longer(before, now) {
            found.push(subject.violation(BATCH, line, format!("{} after {} ms", ms(now), ms(before))));
        }
        let (before, now) = (less.summary.memory_bytes, more.summary.memory_bytes);
        if now < before {
            found.push(subject.violation(MEMORY, line, format!("{now:?} after {before:?}")));
        }
    }
    found
}

/// Whether a device has at least as much of everything that is known of another.
fn is_better(better: &DeviceProfile, worse: &DeviceProfile) -> bool {
    let peaks = worse.peak.keys().all(|&precision| better.peak_rate(precision).0 >= worse.peak_rate(precision).0);
    let link = better.peer_link.0 >= worse.peer_link.0 && better.host_link.0 >= worse.host_link.0;
    peaks
        && link
        && better.dram_bandwidth.0 >= worse.dram_bandwidth.0
        && better.bandwidth().0 >= worse.bandwidth().0
        && better.kernel_start <= worse.kernel_start
        && better.is_amd == worse.is_amd
}

fn devices(subject: &Subject) -> Vec<Violation> {
    let is_gpu = |device: &&Arc<DeviceProfile>| device.kind == DeviceKind::Gpu;
    let all: Vec<&Arc<DeviceProfile>> = subject.engine.catalog.iter().filter(is_gpu).collect();
    let lines: Vec<String> = all.iter().map(|device| format!("swap-gpu {}", device.id)).collect();
    let on = outcomes(subject, &lines);
    if on.len() != all.len() || on.iter().all(|(_, outcome)| outcome.steps[0].no_effect().is_some()) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (better, (line, fast)) in all.iter().zip(&on) {
        let worse = all.iter().zip(&on).filter(|(worse, _)| worse.id != better.id && is_better(better, worse));
        let slower = worse.filter(|(_, (_, slow))| {
            is_longer(time(fast), time(slow)) && fast.summary.error_band.low_ns > slow.summary.error_band.high_ns
        });
        let worst = slower.max_by(|(_, (_, a)), (_, (_, b))| time(b).total_cmp(&time(a)));
        if let Some((worse, (_, slow))) = worst {
            let shown = format!("{} ms, {} on {}", ms(time(fast)), ms(time(slow)), worse.id);
            found.push(subject.violation(DEVICE, line, shown));
        }
    }
    found
}

/// Times along lines of which each asks for more than the one before.
fn rising(subject: &Subject, law: &'static str, lines: &[String]) -> Vec<Violation> {
    rising_but(subject, law, lines, |_| false)
}

/// The same but for what says itself why it takes longer.
fn rising_but(
    subject: &Subject,
    law: &'static str,
    lines: &[String],
    says_so: impl Fn(&Outcome) -> bool,
) -> Vec<Violation> {
    let mut found = Vec::new();
    for pair in outcomes(subject, lines).windows(2) {
        let [(before, slow), (line, fast)] = pair else { continue };
        if is_longer(time(fast), time(slow)) && !says_so(fast) {
            let shown = format!("{} ms, {} with {before}", ms(time(fast)), ms(time(slow)));
            found.push(subject.violation(law, line, shown));
        }
    }
    found
}

fn figures(subject: &Subject) -> Vec<Violation> {
    let of_figure = |figure: &&str| {
        let lines = ["0.25", "0.5", "1", "1.1", "1.5", "4"].map(|by| format!("scale-device {figure} x{by}"));
        rising(subject, FIGURE, &lines)
    };
    ["dram_bw", "flops", "link", "host_link"].iter().flat_map(of_figure).collect()
}

fn links(subject: &Subject) -> Vec<Violation> {
    let is_collective = |kind: TaskKind| matches!(kind, TaskKind::Collective(_));
    if !subject.graph().tasks.node_weights().any(|task| is_collective(task.kind)) {
        return Vec::new();
    }
    let all: Vec<&LinkProfile> = subject.engine.models.links().iter().filter(|link| !link.pairs_only).collect();
    let lines: Vec<String> = all.iter().map(|link| format!("swap-link {}", link.id)).collect();
    let over = outcomes(subject, &lines);
    if over.len() != all.len() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (better, (line, fast)) in all.iter().zip(&over) {
        let is_worse = |worse: &LinkProfile| {
            better.gb_s > worse.gb_s
                && better.latency_us <= worse.latency_us
                && better.between_nodes == worse.between_nodes
                && better.most >= worse.most
        };
        let slower =
            all.iter().zip(&over).filter(|(worse, (_, slow))| is_worse(worse) && is_longer(time(fast), time(slow)));
        if let Some((worse, (_, slow))) = slower.max_by(|a, b| time(&b.1.1).total_cmp(&time(&a.1.1))) {
            let shown = format!("{} ms, {} over {}", ms(time(fast)), ms(time(slow)), worse.id);
            found.push(subject.violation(LINK, line, shown));
        }
    }
    found
}

fn ranks(subject: &Subject) -> Vec<Violation> {
    let is_collective = |kind: TaskKind| matches!(kind, TaskKind::Collective(_));
    let mut found = Vec::new();
    for layout in ["NVLink4 8", "Ethernet-100G 8", "InfiniBand-HDR 4"] {
        let lines = [8, 16, 32, 64, 256].map(|ranks| format!("scale-ranks {ranks} {layout}"));
        for pair in outcomes(subject, &lines).windows(2) {
            let [(_, few), (line, many)] = pair else { continue };
            let (before, now) = (work_time(few, is_collective).0 as f64, work_time(many, is_collective).0 as f64);
            if is_longer(before, now) {
                found.push(subject.violation(RANKS, line, format!("{} after {} ms", ms(now), ms(before))));
            }
        }
    }
    found
}

/// Searches for a placement of tables under tighter and tighter limits.
fn limits(subject: &Subject) -> Vec<Violation> {
    let sharding = || Sharding::new(&subject.loaded, &Scenario::default());
    let (traced, tables) = (sharding(), sharding());
    let (ranks, tables) = (subject.graph().ranks.len() as u64, tables.tables());
    if ranks < 2 || tables.sharded().is_empty() {
        return Vec::new();
    }
    let all: u64 = tables.tables.iter().filter_map(|table| table.bytes).map(|bytes| bytes.0).sum();
    let mut best = traced.best().simulated_ns;
    let mut found = Vec::new();
    for share in [100, 75, 60, 50, 40, 30, 20, 10] {
        let limit = Bytes(all / ranks * share / 50);
        let under = sharding().within(Some(limit)).best().simulated_ns;
        if let (Some(before), Some(now)) = (best, under)
            && is_longer(before.0 as f64, now.0 as f64)
        {
            found.push(subject.violation(LIMIT, &format!("within {limit}"), format!("{now} after {before}")));
        }
        best = under.or(best);
    }
    found
}

fn faster(subject: &Subject) -> Vec<Violation> {
    let lines = |selector: &str, factors: &[&str]| -> Vec<String> {
        factors.iter().map(|by| format!("scale {selector} x{by}")).collect()
    };
    let of_kind = |kind: &&str| {
        let lines = lines(&format!("kind={kind}"), &["2", "1", "0.9", "0.5", "0.2", "0.07", "0"]);
        rising(subject, FASTER, &lines)
    };
    // Work of one family may be of the steps around alone, whose ends a recorded window lies between.
    let is_cut = |outcome: &Outcome| !outcome.summary.steady.is_compared() && outcome.summary.cut.is_some();
    let of_family = |family: Family| {
        let lines = lines(&format!("family={}", family.name()), &["1", "0.3", "0"]);
        rising_but(subject, FASTER, &lines, is_cut)
    };
    let of_kinds = ["kernel", "host", "collective", "memcpy", "T4"].iter().flat_map(of_kind);
    of_kinds.chain(Family::ALL.into_iter().flat_map(of_family)).collect()
}
