//! All messages of this session, and what was odd in the traces.

use crate::tui::app::App;
use crate::tui::canvas::{Canvas, wrap};
use crate::tui::message::Level;
use crate::tui::theme::Role;
use crate::tui::timeline::short_name;
use crate::tui::workspace::Workspace;
use retime_core::diagnostic::Severity;
use retime_core::scenario::EffectKind;

/// Draws the list.
pub fn render(app: &App, scroll: usize, canvas: &mut Canvas<'_>) {
    let lines = lines(app, canvas.width() as usize);
    let first = scroll.min(lines.len().saturating_sub(canvas.height() as usize));
    for (y, (text, role)) in lines.iter().skip(first).take(canvas.height() as usize).enumerate() {
        canvas.text(0, y as u16, text, *role);
    }
}

fn lines(app: &App, width: usize) -> Vec<(String, Role)> {
    let mut lines = vec![("this session, the latest first".to_owned(), Role::Title)];
    for message in app.messages.iter().rev() {
        let role = if message.level == Level::Error { Role::Bad } else { Role::Text };
        lines.extend(wrap(&message.text, width).into_iter().map(|line| (line, role)));
    }
    if app.messages.is_empty() {
        lines.push(("nothing so far".to_owned(), Role::Dim));
    }
    effects(app, width, &mut lines);
    lines.push((String::new(), Role::Text));
    lines.push(("about this trace".to_owned(), Role::Title));
    let Some(work) = app.workspace() else { return lines };
    let diagnostics = work.loaded.diagnostics();
    for diagnostic in diagnostics.sorted() {
        let (sign, role) = match diagnostic.severity {
            Severity::Error => ("✗", Role::Bad),
            Severity::Warning => ("!", Role::Warn),
            Severity::Note => ("·", Role::Text),
        };
        let times = if diagnostic.count > 1 { format!(" ({} times)", diagnostic.count) } else { String::new() };
        let place = diagnostic.place.as_ref().map_or(String::new(), |place| format!(", at {place}"));
        let text = format!("{sign} {}: {}{place}{times}", diagnostic.code, diagnostic.message);
        let text = retime_core::intern::printable(&text);
        lines.extend(wrap(&text, width).into_iter().map(|line| (line, role)));
    }
    late_starts(work, width, &mut lines);
    if diagnostics.is_empty() {
        lines.push(("nothing odd was found".to_owned(), Role::Dim));
    }
    lines
}

/// The waiting that no rule explains, and the tasks where it is largest.
fn late_starts(work: &Workspace, width: usize, lines: &mut Vec<(String, Role)>) {
    const MOST: usize = 8;
    let graph = &work.loaded.graph;
    if graph.late_starts.is_empty() {
        return;
    }
    let share = 100.0 * graph.unexplained_share();
    let (count, total) = (graph.late_starts.len(), graph.unexplained());
    let what = if count == 1 { "task starts" } else { "tasks start" };
    let head = format!("! unexplained: {count} {what} {total} later in all than any rule says ({share:.1} %)");
    lines.extend(wrap(&head, width).into_iter().map(|line| (line, Role::Warn)));
    for late in graph.late_starts.iter().take(MOST) {
        let name = graph.tasks.node_weight(late.node).map_or("", |task| graph.names.get(task.name));
        lines.push((format!("  {} {}", late.by, short_name(name)), Role::Dim));
    }
}

/// What the steps of the scenario say of themselves.
fn effects(app: &App, width: usize, lines: &mut Vec<(String, Role)>) {
    let Some(work) = app.workspace() else { return };
    for step in work.outcome.steps.iter().filter(|step| !step.effects.is_empty()) {
        lines.push((String::new(), Role::Text));
        lines.push((format!("about {}", step.transform), Role::Title));
        for told in &step.effects {
            let is_caveat = matches!(told.kind, EffectKind::NoEffect | EffectKind::NotModelled);
            let role = if is_caveat { Role::Warn } else { Role::Text };
            let text = told.line();
            lines.extend(wrap(&retime_core::intern::printable(&text), width).into_iter().map(|line| (line, role)));
        }
    }
}
