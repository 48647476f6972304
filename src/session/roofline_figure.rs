//! The communication roofline of several systems as an SVG picture: left under the network's roof, right under the memory's
//! [Cardwell 2019 Figs. 2.3–2.11].

use std::fmt::Write;

use retime_core::analysis::roofline::Roofs;

use super::export::escaped;

/// What is drawn.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The systems, over one another.
    pub systems: Vec<FigureSystem>,
}

/// A system with the points under its roofs.
#[derive(Clone, Debug)]
pub struct FigureSystem {
    /// Its name.
    pub name: String,
    /// Its roofs.
    pub roofs: Roofs,
    /// What is under them; points of one series are joined in order.
    pub points: Vec<FigurePoint>,
}

/// A point.
#[derive(Clone, Debug)]
pub struct FigurePoint {
    /// What it belongs to.
    pub series: String,
    /// FLOP per byte of memory traffic.
    pub intensity: f64,
    /// FLOP per byte of network traffic; `None` without any.
    pub communication_intensity: Option<f64>,
    /// FLOP per second.
    pub rate: f64,
    /// Whether it was measured, not worked out.
    pub is_measured: bool,
}

/// Pixels.
const PANEL: (f64, f64) = (520.0, 360.0);
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
const APART: f64 = 90.0;
const COLOURS: [&str; 6] = ["#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a"];

/// Which of the two roofs a panel shows.
#[derive(Clone, Copy)]
enum Panel {
    Network,
    Memory,
}

impl Panel {
    fn title(self) -> &'static str {
        match self {
            Self::Network => "communication arithmetic intensity, FLOP per network byte",
            Self::Memory => "operational intensity, FLOP per byte",
        }
    }

    fn ridge(self, roofs: &Roofs) -> Option<f64> {
        match self {
            Self::Network => roofs.network_ridge(),
            Self::Memory => Some(roofs.ridge()),
        }
    }

    fn of(self, point: &FigurePoint) -> Option<f64> {
        match self {
            Self::Network => point.communication_intensity,
            Self::Memory => Some(point.intensity),
        }
        .filter(|value| *value > 0.0 && value.is_finite())
    }

    fn under(self, roofs: &Roofs, intensity: f64) -> f64 {
        match self {
            Self::Network => roofs.attainable(f64::INFINITY, intensity).0,
            Self::Memory => roofs.attainable(intensity, f64::INFINITY).0,
        }
    }
}

/// Ranges of a panel in decimal logarithms.
#[derive(Clone, Copy)]
struct Scale {
    x: (f64, f64),
    y: (f64, f64),
    left: f64,
}

impl Scale {
    fn of(figure: &Figure, panel: Panel, left: f64) -> Option<Self> {
        let systems = figure.systems.iter();
        let points = systems.clone().flat_map(|system| &system.points);
        let x: Vec<f64> = systems
            .clone()
            .filter_map(|it| panel.ridge(&it.roofs))
            .chain(points.clone().filter_map(|it| panel.of(it)))
            .collect();
        let rates = points.map(|point| point.rate).filter(|rate| *rate > 0.0);
        let y: Vec<f64> = systems.map(|system| system.roofs.peak.0).chain(rates).collect();
        let range = |values: &[f64], below: f64| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min).log10();
            let most = values.iter().copied().fold(0.0, f64::max).log10();
            (least.is_finite() && most.is_finite()).then(|| ((least - below).floor(), (most + 0.3).ceil()))
        };
        Some(Self { x: range(&x, 1.0)?, y: range(&y, 0.5)?, left })
    }

    fn x(&self, value: f64) -> f64 {
        self.left + PANEL.0 * (value.log10() - self.x.0) / (self.x.1 - self.x.0)
    }

    /// Rates below the panel lie on its lower edge.
    fn y(&self, value: f64) -> f64 {
        let share = (value.max(f64::MIN_POSITIVE).log10() - self.y.0) / (self.y.1 - self.y.0);
        TOP + PANEL.1 * (1.0 - share.clamp(0.0, 1.0))
    }
}

/// The picture as SVG.
pub fn roofline_figure(figure: &Figure) -> String {
    let (width, height) = (LEFT + 2.0 * PANEL.0 + APART + 20.0, TOP + PANEL.1 + 60.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui,sans-serif\" font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let mut x = LEFT;
    for (system, colour) in figure.systems.iter().zip(COLOURS.iter().cycle()) {
        let _ = writeln!(
            text,
            "<text x=\"{x:.0}\" y=\"22\" font-size=\"13\" fill=\"{colour}\">{}</text>",
            escaped(&system.name)
        );
        x += 30.0 + 8.0 * system.name.chars().count() as f64;
    }
    for (panel, left) in [(Panel::Network, LEFT), (Panel::Memory, LEFT + PANEL.0 + APART)] {
        if let Some(scale) = Scale::of(figure, panel, left) {
            axes(&mut text, panel, scale);
            for (system, colour) in figure.systems.iter().zip(COLOURS.iter().cycle()) {
                draw(&mut text, system, colour, panel, scale);
            }
        }
    }
    text.push_str("</svg>\n");
    text
}

fn axes(text: &mut String, panel: Panel, scale: Scale) {
    let (bottom, right) = (TOP + PANEL.1, scale.left + PANEL.0);
    let _ = writeln!(
        text,
        "<rect x=\"{}\" y=\"{TOP}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#8c959f\"/>",
        scale.left, PANEL.0, PANEL.1
    );
    for decade in scale.x.0 as i32..=scale.x.1 as i32 {
        let x = scale.x(10f64.powi(decade));
        let _ = writeln!(text, "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#eaeef2\"/>");
        let _ =
            writeln!(text, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">1e{decade}</text>", bottom + 16.0);
    }
    for decade in scale.y.0 as i32..=scale.y.1 as i32 {
        let y = scale.y(10f64.powi(decade));
        let _ = writeln!(
            text,
            "<line x1=\"{}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#eaeef2\"/>",
            scale.left
        );
        let label = decade - 9;
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">1e{label} GFLOP/s</text>",
            scale.left - 4.0,
            y + 4.0
        );
    }
    let middle = scale.left + PANEL.0 / 2.0;
    let _ = writeln!(
        text,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        bottom + 36.0,
        panel.title()
    );
}

fn draw(text: &mut String, system: &FigureSystem, colour: &str, panel: Panel, scale: Scale) {
    let Some(ridge) = panel.ridge(&system.roofs) else { return };
    let [first, last] = [scale.x.0, scale.x.1].map(|log| 10f64.powf(log));
    let corner = |value: f64| format!("{:.1},{:.1}", scale.x(value), scale.y(panel.under(&system.roofs, value)));
    let roof = [first, ridge, last].map(corner).join(" ");
    let _ = writeln!(text, "<polyline points=\"{roof}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
    let mut names: Vec<&str> = system.points.iter().map(|point| point.series.as_str()).collect();
    names.dedup();
    for name in names {
        let series: Vec<(&FigurePoint, f64)> =
            system.points.iter().filter(|it| it.series == name).filter_map(|it| Some((it, panel.of(it)?))).collect();
        let path: Vec<String> =
            series.iter().map(|(point, x)| format!("{:.1},{:.1}", scale.x(*x), scale.y(point.rate))).collect();
        let joined = path.join(" ");
        let _ =
            writeln!(text, "<polyline points=\"{joined}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"0.7\"/>");
        for (point, x) in &series {
            let fill = if point.is_measured { colour } else { "#fff" };
            let _ = writeln!(
                text,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"{colour}\"><title>{} on {}: {:.4} GFLOP/s at {:.4}</title></circle>",
                scale.x(*x),
                scale.y(point.rate),
                escaped(name),
                escaped(&system.name),
                point.rate / 1e9,
                x
            );
        }
        if let Some((point, x)) = series.last() {
            let (x, y) = (scale.x(*x) + 5.0, scale.y(point.rate) - 5.0);
            let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{}</text>", escaped(name));
        }
    }
}
