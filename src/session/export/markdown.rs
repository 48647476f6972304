//! A report as Markdown, ready to be pasted into a pull request.

use std::fmt::Write;

use super::report::{Block, Report};

/// The text of `report`.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = format!("# {}\n", escaped(&report.title));
    for block in &report.blocks {
        text.push('\n');
        write_block(&mut text, block);
    }
    let _ = writeln!(text, "\nWritten by retime {}.", env!("CARGO_PKG_VERSION"));
    text
}

fn write_block(text: &mut String, block: &Block) {
    let _ = match block {
        Block::Heading(heading) => writeln!(text, "## {heading}"),
        Block::Text(line) => writeln!(text, "{}", escaped(line)),
        Block::Code(code) => writeln!(text, "    {code}"),
        Block::Table { header, rows } => {
            let cells = |cells: &[String]| format!("| {} |", cells.join(" | "));
            let header: Vec<String> = header.iter().map(|name| escaped(name)).collect();
            let _ = writeln!(text, "{}\n|{}", cells(&header), "---|".repeat(header.len()));
            for row in rows {
                let row: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
                let _ = writeln!(text, "{}", cells(&row));
            }
            Ok(())
        }
    };
}

/// Text in which nothing is markup: names such as `a_b*c<d>|e` come out as they are.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\`*_[]<>|#~&".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_trace_are_no_markup() {
        let rows = vec![vec!["void f<float>(a|b)".to_owned(), "1".to_owned()]];
        let report = Report { title: "a_b".to_owned(), blocks: vec![Block::table(&["name", "n"], rows)] };
        let text = markdown(&report);
        assert!(text.starts_with("# a\\_b\n\n| name | n |\n|---|---|\n| void f\\<float\\>(a\\|b) | 1 |\n"), "{text}");
    }
}
