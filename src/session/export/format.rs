//! The formats of exported files: their names, their endings, and rows as CSV.

use std::fmt::Write;
use std::path::Path;

use crate::session::csv_field;
use retime_core::scenario::StepError;

use retime_core::engine::TaskRow;

/// A file format of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Chrome-trace JSON, for Perfetto and for this program.
    Chrome,
    /// One row per task.
    Csv,
    /// One object per task.
    Json,
    /// A picture of the timeline.
    Svg,
    /// A report for a pull request.
    Markdown,
    /// The report with the picture, one file that needs nothing else.
    Html,
}

impl ExportFormat {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Chrome, Self::Csv, Self::Json, Self::Svg, Self::Markdown, Self::Html];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chrome => "chrome",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Svg => "svg",
            Self::Markdown => "markdown",
            Self::Html => "html",
        }
    }

    /// The format of that name.
    ///
    /// # Errors
    /// There is none; the message names the nearest.
    pub fn parse(name: &str) -> Result<Self, String> {
        let unknown = || StepError::unknown(1, "format", name, Self::ALL.map(Self::name)).message;
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(unknown)
    }

    /// The format that a file's ending asks for; a Chrome trace for any other.
    pub fn of_path(path: &Path) -> Self {
        let packed = path.extension().filter(|ending| ending.eq_ignore_ascii_case("gz"));
        let named = packed.and(path.file_stem()).map_or(path, Path::new);
        match named.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => Self::Csv,
            Some("svg") => Self::Svg,
            Some("md" | "markdown") => Self::Markdown,
            Some("html" | "htm") => Self::Html,
            _ => Self::Chrome,
        }
    }
}

/// The rows of a timeline as CSV.
pub(super) fn csv(rows: &[TaskRow]) -> String {
    let mut text = "rank,lane,kind,name,operator,start_ns,duration_ns,measured_ns,source,critical\n".to_owned();
    for row in rows {
        let TaskRow { rank, start_ns, duration_ns, measured_ns, source, critical, .. } = row;
        let [lane, kind, name, operator] = [&row.lane, &row.kind, &row.name, &row.operator].map(|cell| csv_field(cell));
        let _ = writeln!(
            text,
            "{rank},{lane},{kind},{name},{operator},{start_ns},{duration_ns},{measured_ns},{source},{critical}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_ending_says_what_is_written_to_it() {
        let of = |path: &str| ExportFormat::of_path(Path::new(path)).name();
        assert_eq!(
            ["a.svg", "b/report.md", "c.html", "d.csv", "e.json", "f", "g.csv.gz", "h.json.gz"].map(of),
            ["svg", "markdown", "html", "csv", "chrome", "chrome", "csv", "chrome"]
        );
        assert!(ExportFormat::parse("markdwn").unwrap_err().contains("`markdown`"));
    }
}
