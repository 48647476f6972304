//! A report with its picture as one HTML file that needs nothing else: no script, no font, no network.

use std::fmt::Write;

use super::report::{Block, Report};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1640px;padding:0 1rem;\
color:#1d2430;background:#fff}table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{text-align:left;\
padding:.2rem .9rem .2rem 0;border-bottom:1px solid #dfe3ea;vertical-align:top}code{background:#f1f3f6;\
padding:.6rem;display:block;white-space:pre-wrap}svg{max-width:100%;height:auto}footer{color:#667}\
@media(prefers-color-scheme:dark){body{color:#d7dce4;background:#12161d}td,th{border-color:#2b323d}\
code{background:#1c222c}svg{filter:invert(.92) hue-rotate(180deg)}}";

/// The text of the file.
pub(super) fn html(report: &Report, picture: &str) -> String {
    let title = escaped(&report.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{picture}"
    );
    for block in &report.blocks {
        write_block(&mut text, block);
    }
    let _ = writeln!(text, "<footer>Written by retime {}.</footer>\n</body>\n</html>", env!("CARGO_PKG_VERSION"));
    text
}

fn write_block(text: &mut String, block: &Block) {
    let _ = match block {
        Block::Heading(heading) => writeln!(text, "<h2>{heading}</h2>"),
        Block::Text(line) => writeln!(text, "<p>{}</p>", escaped(line)),
        Block::Code(code) => writeln!(text, "<code>{}</code>", escaped(code)),
        Block::Table { header, rows } => {
            let _ = writeln!(text, "<table>");
            if header.iter().any(|name| !name.is_empty()) {
                let header: Vec<String> = header.iter().map(|name| escaped(name)).collect();
                let _ = writeln!(text, "<tr><th>{}</th></tr>", header.join("</th><th>"));
            }
            for row in rows {
                let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
                let _ = writeln!(text, "<tr><td>{}</td></tr>", cells.join("</td><td>"));
            }
            writeln!(text, "</table>")
        }
    };
}

/// Text in which nothing is markup, for HTML and SVG.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
