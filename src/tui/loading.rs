//! The loading screen: how far, how fast, and how to stop.

use std::sync::Arc;
use std::time::Instant;

use retime_core::trace::Progress;
use retime_core::units::Bytes;

use super::canvas::Canvas;
use super::theme::Role;

/// A load in progress.
#[derive(Clone, Debug)]
pub struct Loading {
    /// What is being read, for the title.
    pub what: String,
    /// Shared with the loader.
    pub progress: Arc<Progress>,
    /// When it began.
    pub began: Instant,
    /// Seconds since then, at the last tick; kept so that drawing reads no clock.
    pub seconds: f64,
}

impl Loading {
    /// A load that begins now.
    pub fn new(what: String, progress: Arc<Progress>) -> Self {
        Self { what, progress, began: Instant::now(), seconds: 0.0 }
    }

    /// Brings the clock up to date.
    pub fn tick(&mut self) {
        self.seconds = self.began.elapsed().as_secs_f64();
    }
}

/// Draws the loading screen.
pub fn render(loading: &Loading, canvas: &mut Canvas<'_>) {
    let (width, height) = (canvas.width().clamp(20, 72), 7_u16.min(canvas.height()));
    let (x, y) = ((canvas.width() - width.min(canvas.width())) / 2, (canvas.height() - height) / 2);
    let mut area = canvas.part(x, y, width, height);
    area.frame("retime", "esc cancels");
    let mut inner = area.part(3, 2, width.saturating_sub(6), height.saturating_sub(3));
    let (read, total) = (loading.progress.bytes_read(), loading.progress.bytes_total());
    let share = if total > 0 { (read as f64 / total as f64).clamp(0.0, 1.0) } else { 0.0 };
    let is_read = total > 0 && read >= total;
    let stage = if is_read { "building the graph of" } else { "reading" };
    inner.line(0, 0, &[(stage, Role::Dim), (" ", Role::Dim), (&loading.what, Role::Text)]);
    draw_bar(&mut inner, 1, share);
    let (events, seconds) = (loading.progress.events(), loading.seconds);
    if is_read {
        inner.text(0, 2, &format!("{} read, {events} events, {seconds:.1} s so far", Bytes(total)), Role::Dim);
        return;
    }
    let rate = Bytes((read as f64 / seconds.max(0.05)) as u64);
    inner.text(0, 2, &format!("{} of {}, {rate}/s, {events} events", Bytes(read), Bytes(total)), Role::Dim);
    inner.right(0, 2, 0, &[(format!("{:.0} %", share * 100.0), Role::Strong)]);
}

/// A bar that is `share` full, finer than a cell.
fn draw_bar(canvas: &mut Canvas<'_>, y: u16, share: f64) {
    const LEFT: [&str; 8] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let width = canvas.width();
    let eighths = (share * f64::from(width) * 8.0).round() as u32;
    for x in 0..width {
        let filled = eighths.saturating_sub(u32::from(x) * 8);
        let (symbol, role) = match filled {
            0 => ("·", Role::Faint),
            1..=7 => (LEFT[filled as usize], Role::Chart),
            _ => ("█", Role::Chart),
        };
        canvas.text(x, y, symbol, role);
    }
}
