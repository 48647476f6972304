use super::*;

#[test]
fn idle_time_within_a_period_is_what_no_piece_covers() {
    let interval = |start, end, key| super::super::density::Interval { start: TimeNs(start), end: TimeNs(end), key };
    let density = Density::build([interval(0, 10, 3), interval(10, 20, 4), interval(35, 60, 5), interval(70, 80, 6)]);
    let found = idle(&density, &(TimeNs(5)..TimeNs(100)));
    let expected = [
        (TimeNs(20)..TimeNs(35), Some(NodeId::new(5))),
        (TimeNs(60)..TimeNs(70), Some(NodeId::new(6))),
        (TimeNs(80)..TimeNs(100), None),
    ];
    assert_eq!(found, expected);
    assert_eq!(idle(&Density::default(), &(TimeNs(0)..TimeNs(7))), [(TimeNs(0)..TimeNs(7), None)]);
}
