use roxmltree::{Document, Node};

use super::curve::{Curve, name};
use super::plane::Plane;
use super::svg;
use crate::classify::OutOfMemory;
use crate::execute;
use crate::observe::report::{Report, last};
use crate::policy::{Evidence, Policy};
use crate::{GlobalCache, NoCache};

/// The report of a call that runs out of memory above `limit` items.
fn call(name: &str, items: usize, initial: usize, limit: usize) -> Report {
    let cache = GlobalCache::new();
    let body = |start, end| if end - start > limit { Err(OutOfMemory::new(None)) } else { Ok(()) };
    let with = execute::with::<GlobalCache>().cache(&cache).name(name.to_owned());
    let _ = with.min(2).range(0..items, initial, body);
    last().unwrap()
}

/// Grows from 1 to 7 items and begins again.
#[derive(Debug)]
struct Restless;

impl Policy for Restless {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size - 1
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        evidence.step % 7 + 1
    }
}

fn restless() -> Report {
    execute::with::<NoCache>().policy(Restless).range(0..4000, 7, |_, _| ());
    last().unwrap()
}

fn plane_of(report: &Report) -> Plane {
    Plane::of(&[vec![report]])
}

/// Returns the texts of a picture, after checking that all elements lie inside of it.
fn texts(reports: &[&Report]) -> Vec<String> {
    let picture = svg(reports.iter().copied());
    let document = Document::parse(&picture).unwrap_or_else(|error| panic!("{error}\n{picture}"));
    let root = document.root_element();
    let [width, height] = ["width", "height"].map(|side| numbers(root.attribute(side).unwrap())[0]);
    for node in root.descendants().filter(Node::is_element) {
        let places = ["x", "x1", "x2", "cx", "y", "y1", "y2", "cy"];
        for (index, place) in places.iter().enumerate() {
            let limit = if index < 4 { width } else { height };
            let at = node.attribute(*place).map_or(0.0, |place| numbers(place)[0]);
            assert!((0.0..=limit).contains(&at), "{place} {at}: {picture}");
        }
        for corner in node.attribute("points").map_or(Vec::new(), numbers).chunks(2) {
            assert!((0.0..=width).contains(&corner[0]) && (0.0..=height).contains(&corner[1]), "{picture}");
        }
    }
    let texts = root.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|text| text.text().unwrap_or_default().trim().to_owned()).collect()
}

fn numbers(text: &str) -> Vec<f64> {
    text.split([' ', ',']).filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect()
}

#[test]
fn every_report_gives_a_picture_with_title_axes_and_legend() {
    let reports = [
        call("work", 5000, 512, 128),
        call("work", 5000, 512, 1),
        call("work", 1, 4, 4),
        call("work", 0, 4, 4),
        call("work", 3, usize::MAX, usize::MAX),
        call("work", 1 << 40, 1 << 39, 1 << 38),
        restless(),
    ];
    for report in &reports {
        let texts = texts(&[report]);
        assert!(texts[0].ends_with(&report.summary()), "{texts:?}");
        for wanted in ["attempts", "size of an attempt (items)", "size"] {
            assert!(texts.iter().any(|text| text.starts_with(wanted)), "{wanted}: {texts:?}");
        }
        let shown = texts.iter().any(|text| *text == format!("out of memory: {}", report.out_of_memory));
        assert_eq!(shown, report.out_of_memory > 0, "{texts:?}");
        let settled = report.settled.is_some_and(|size| texts.contains(&format!("remembers {size}")));
        assert_eq!(settled, report.settled.is_some(), "{texts:?}");
    }
    assert_eq!(texts(&[])[0], "No call");
    assert_eq!(texts(&reports.iter().collect::<Vec<_>>())[0], "Sizes of 7 calls");
    let many: Vec<Report> = (0..20).map(|number| call(&number.to_string(), 5000, 512, 128)).collect();
    assert_eq!(texts(&many.iter().collect::<Vec<_>>())[0], "Sizes of 20 calls");
}

#[test]
fn names_are_escaped_and_what_no_xml_may_have_is_replaced() {
    let texts = texts(&[&call("a<b> & \"c\" 'd' ]]>\0\u{1b}\u{ffff}", 1, 4, 4)]);
    assert!(texts[0].starts_with("a<b> & \"c\" 'd' ]]>\u{fffd}\u{fffd}\u{fffd}: 1 item"), "{texts:?}");
}

#[test]
fn of_a_long_name_the_end_is_shown() {
    let report = call(&"größer::".repeat(40), 1, 4, 4);
    assert_eq!(name(&report, 12), "…r::größer::");
    assert_eq!(name(&report, 320).len(), report.name.to_string().len());
    assert!(texts(&[&report, &call("other", 1, 4, 4)]).iter().all(|text| text.chars().count() <= 33));
}

#[test]
fn steps_follow_the_history() {
    let report = call("work", 5000, 512, 128);
    let curve = Curve::of(&[&report], String::new(), &plane_of(&report));
    let corners = [(0.0, 9.0), (1.0, 9.0), (1.0, 8.0), (2.0, 8.0), (2.0, 7.0), (42.0, 7.0)];
    assert_eq!(curve.points, corners);
    assert_eq!(curve.failures, [corners[1], corners[3]]);
    assert_eq!((curve.settled, &*curve.remembers), (vec![corners[5]], "remembers 128"));
}

#[test]
fn calls_of_one_name_follow_each_other() {
    let reports = [call("work", 1024, 512, 128), call("other", 8, 8, 8), call("work", 1024, 512, 256)];
    let curves = super::by_name(&reports);
    assert_eq!(curves.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    let curve = Curve::of(&curves[0], String::new(), &Plane::of(&curves));
    let second = [(10.0, 9.0), (11.0, 9.0), (11.0, 8.0), (15.0, 8.0)];
    assert_eq!(curve.points[6..], second);
    assert_eq!((curve.out_of_memory, curve.settled), (3, vec![(10.0, 7.0), second[3]]));
    assert_eq!(curve.remembers, "size remembered");
}

#[test]
fn a_call_without_a_failure_is_one_step_small_sizes_are_linear_and_costs_are_called_so() {
    let report = call("work", 20, 8, 8);
    let plane = plane_of(&report);
    let curve = Curve::of(&[&report], String::new(), &plane);
    assert_eq!((curve.points, curve.failures), (vec![(0.0, 8.0), (3.0, 8.0)], vec![]));
    assert_eq!((plane.y_range().start, plane.y_label(8.0)), (0.0, "8".to_owned()));
    execute::with::<NoCache>().by_cost(|_| 3).range(0..10, 9, |_, _| ());
    assert_eq!(plane_of(&last().unwrap()).y_title(), "size of an attempt (cost units)");
}

#[test]
fn even_pieces_are_drawn_at_the_size_that_ran() {
    execute::with::<NoCache>().evenly().range(0..601, 220, |_, _| ());
    let report = last().unwrap();
    let curve = Curve::of(&[&report], String::new(), &plane_of(&report));
    assert_eq!(curve.points, [(0.0, 201.0), (3.0, 201.0)]);
}

#[test]
fn a_truncated_history_is_marked() {
    let report = restless();
    assert_eq!(report.tried.len(), 256);
    let plane = plane_of(&report);
    assert_eq!(plane.x_title(), "attempts, the first changes of size only");
    assert_eq!(Curve::of(&[&report], String::new(), &plane).points.len(), 512);
}

#[cfg(feature = "testing")]
mod timed {
    use std::time::Duration;

    use super::{Curve, NoCache, OutOfMemory, Plane, Report, call, execute, last, plane_of, texts};
    use crate::testing::StoppedClock;

    /// Each attempt takes `pause`, and is timed because of the deadline.
    fn timed(pause: Duration) -> Report {
        let clock = StoppedClock::new();
        let body = |start, end| {
            clock.advance(pause);
            if end - start > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        };
        let with = execute::with::<NoCache>().name("work").deadline(Duration::from_secs(3600));
        with.range(0..16, 8, body).unwrap();
        last().unwrap()
    }

    #[test]
    fn time_is_shown_in_a_unit_that_fits() {
        let report = timed(Duration::from_secs(1));
        let plane = plane_of(&report);
        assert_eq!(plane.x_title(), "time spent in attempts (s)");
        let curve = Curve::of(&[&report], String::new(), &plane);
        assert_eq!(curve.points, [(0.0, 8.0), (1.0, 8.0), (1.0, 4.0), (5.0, 4.0)]);
        assert_eq!(plane_of(&timed(Duration::from_nanos(1))).x_title(), "time spent in attempts (µs)");
        assert_eq!(plane_of(&timed(Duration::from_secs(600))).x_title(), "time spent in attempts (min)");
    }

    #[test]
    fn attempts_are_counted_where_no_time_passed_or_not_all_is_known() {
        let report = timed(Duration::ZERO);
        assert_eq!(plane_of(&report).x_title(), "attempts");
        assert!(texts(&[&report]).contains(&"attempts".to_owned()));
        let (known, unknown) = (timed(Duration::from_secs(1)), call("work", 16, 8, 4));
        assert_eq!(Plane::of(&[vec![&known], vec![&unknown]]).x_title(), "attempts");
        assert_eq!(texts(&[&known, &unknown])[0], "work: 2 calls");
    }
}
