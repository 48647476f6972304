use proptest::prelude::*;

use super::*;

fn interval(start: i64, end: i64, key: u32) -> Interval {
    Interval { start: TimeNs(start), end: TimeNs(end), key }
}

/// The key of each nanosecond, painted in order of start, longest first.
fn painted(intervals: &[Interval], length: usize) -> Vec<Option<u32>> {
    let mut sorted = intervals.to_vec();
    sorted.sort_by_key(|it| (it.start, std::cmp::Reverse(it.end)));
    let mut line = vec![None; length];
    for it in sorted {
        line[it.start.0 as usize..it.end.0 as usize].fill(Some(it.key));
    }
    line
}

/// The longest run of one painted key within a cell, the first of equal ones.
fn dominant(line: &[Option<u32>], range: Range<usize>) -> Option<u32> {
    let mut best = (0, None);
    let mut i = range.start;
    while i < range.end {
        let run = line[i..range.end].iter().take_while(|key| **key == line[i]).count();
        if line[i].is_some() && run > best.0 {
            best = (run, line[i]);
        }
        i += run;
    }
    best.1
}

prop_compose! {
    fn some_intervals()(raw in prop::collection::vec((0_i64..400, 0_i64..60), 0..120)) -> Vec<Interval> {
        raw.iter().enumerate().map(|(key, &(start, length))| interval(start, start + length, key as u32)).collect()
    }
}

proptest! {
    #[test]
    fn cells_hold_what_painting_every_nanosecond_gives(intervals in some_intervals(), from in 0_usize..300, columns in 1_usize..40) {
        let line = painted(&intervals, 500);
        let density = Density::build(intervals);
        let range = from..from + columns * 5;
        let mut cells = Vec::new();
        density.cells(TimeNs(range.start as i64)..TimeNs(range.end as i64), columns, &mut cells);
        prop_assert_eq!(cells.len(), columns);
        for (i, cell) in cells.iter().enumerate() {
            let (start, end) = (from + i * 5, (from + (i + 1) * 5).min(500));
            let busy = line.get(start..end).map_or(0, |part| part.iter().flatten().count());
            prop_assert!((cell.busy - busy as f32 / 5.0).abs() < 1e-6);
            let key = line.get(start..end).and_then(|_| dominant(&line, start..end));
            prop_assert_eq!(cell.key, key);
        }
    }

    #[test]
    fn the_piece_at_a_time_is_the_one_painted_there(intervals in some_intervals(), time in 0_i64..500) {
        let line = painted(&intervals, 500);
        let density = Density::build(intervals);
        prop_assert_eq!(density.at(TimeNs(time)).map(|piece| piece.key), line[time as usize]);
        let busy = line[..time as usize].iter().flatten().count();
        prop_assert_eq!(density.busy(TimeNs(0)..TimeNs(time)), DurNs(busy as i64));
    }

    #[test]
    fn visible_pieces_are_those_that_overlap_the_range(intervals in some_intervals(), from in 0_i64..400, length in 1_i64..100) {
        let density = Density::build(intervals);
        let all: Vec<Interval> = density.visible(TimeNs(i64::MIN)..TimeNs(i64::MAX)).collect();
        let shown: Vec<Interval> = density.visible(TimeNs(from)..TimeNs(from + length)).collect();
        let overlapping: Vec<Interval> =
            all.iter().copied().filter(|piece| piece.end.0 > from && piece.start.0 < from + length).collect();
        prop_assert_eq!(shown, overlapping);
    }

    #[test]
    fn of_many_pieces_the_longest_away_from_the_ends_is_found(lengths in prop::collection::vec(0_u32..9, 64..5000), a in 0.0_f64..1.0, b in 0.0_f64..1.0) {
        let count = lengths.len();
        let pieces = lengths.iter().enumerate().map(|(i, &length)| Ranked { length: length + 1, key: i as u32 });
        let place = |share: f64| (share * count as f64) as usize;
        let start = place(a.min(b)).min(count - 64);
        let range = start..place(a.max(b)).max(start + 64);
        let found = Longest::new(pieces).within(range.clone()).unwrap() as usize;
        let margin = range.len() / 8;
        let middle = range.start + margin..range.end - margin;
        prop_assert!(range.contains(&found));
        prop_assert!(lengths[middle].iter().all(|&length| length <= lengths[found]));
        let within_block = found - found % 8..found;
        prop_assert!(lengths[within_block].iter().all(|&length| length < lengths[found]));
    }
}

#[test]
fn an_outer_interval_shows_around_its_inner_ones() {
    let density = Density::build([interval(0, 100, 0), interval(20, 30, 1), interval(30, 40, 2)]);
    let keys: Vec<(i64, u32)> =
        density.visible(TimeNs(0)..TimeNs(100)).map(|piece| (piece.start.0, piece.key)).collect();
    assert_eq!(keys, [(0, 0), (20, 1), (30, 2), (40, 0)]);
    assert_eq!(density.next(TimeNs(25)).map(|piece| piece.key), Some(2));
    assert_eq!(density.previous(TimeNs(35)).map(|piece| piece.key), Some(1));
    assert_eq!(density.span(), Some(TimeNs(0)..TimeNs(100)));
}

#[test]
fn a_cell_narrower_than_a_nanosecond_is_busy_when_its_instant_is() {
    let density = Density::build([interval(5, 6, 7)]);
    let mut cells = Vec::new();
    density.cells(TimeNs(4)..TimeNs(6), 4, &mut cells);
    let busy: Vec<f32> = cells.iter().map(|cell| cell.busy).collect();
    assert_eq!(busy, [0.0, 0.0, 1.0, 1.0]);
}

#[test]
fn an_empty_lane_has_idle_cells_and_no_span() {
    let density = Density::build([interval(5, 5, 0)]);
    let mut cells = Vec::new();
    density.cells(TimeNs(0)..TimeNs(10), 3, &mut cells);
    assert_eq!(cells, [Cell::default(); 3]);
    assert_eq!((density.span(), density.at(TimeNs(5))), (None, None));
}

#[test]
fn times_beyond_the_scale_are_moved_to_its_ends() {
    let density = Density::build([interval(i64::MIN, 0, 0), interval(10, i64::MAX, 1)]);
    let mut cells = Vec::new();
    density.cells(TimeNs(i64::MIN)..TimeNs(i64::MAX), 2, &mut cells);
    assert_eq!(cells.iter().map(|cell| cell.key).collect::<Vec<_>>(), [Some(0), Some(1)]);
}

#[test]
fn a_crowded_cell_takes_the_colour_of_its_longest_piece() {
    let density =
        Density::build((0..10_000).map(|i| interval(i * 10, i * 10 + if i == 5_000 { 9 } else { 5 }, i as u32)));
    let mut cells = Vec::new();
    density.cells(TimeNs(0)..TimeNs(100_000), 3, &mut cells);
    assert_eq!(cells.iter().map(|cell| cell.key).collect::<Vec<_>>()[1], Some(5_000));
    assert!(cells.iter().all(|cell| (cell.busy - 0.5).abs() < 0.001));
}
