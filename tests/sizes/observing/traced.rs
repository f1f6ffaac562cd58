//! Every event as a `tracing` event with its fields. Without a subscriber no event is built.

use expect_test::expect;
use toma::{Bisect, NoCache, execute, report};
use tracing::level_filters::LevelFilter;

use crate::child::alone;
use crate::kit::fits;
use crate::observing::subscriber::Collect;
use crate::observing::world::{FINE, OTHER, OUT_OF_MEMORY, TRANSIENT_LARGE, World, inline};

/// Makes a call with every kind of event.
fn eventful() {
    let mut world = World::new([TRANSIENT_LARGE, OUT_OF_MEMORY, FINE, FINE, OTHER]);
    world.policy = Box::new(Bisect::default());
    inline(&world, 20).unwrap_err();
    inline(&world, 4).unwrap();
}

/// Returns the recorded events of the eventful call up to a level.
fn received(most: LevelFilter) -> String {
    // Other tests may be the first to reach the call site of an event, when there is no subscriber. Once each call site
    // has been reached, a new subscriber registers its interest in it anew.
    Collect::up_to(LevelFilter::TRACE).during(eventful);
    Collect::up_to(most).during(eventful)
}

#[test]
fn every_kind_of_event_arrives_with_its_fields() {
    alone("observing::traced::every_kind_of_event_arrives_with_its_fields", || {
        let received = received(LevelFilter::TRACE);
        expect![[r#"
        DEBUG toma: message=<started> call=CALL name="work" initial=8 start=8 length=20
        DEBUG toma: message=<attempt> call=CALL name="work" start=0 end=8
        WARN toma: message=<failed> call=CALL name="work" start=0 end=8 size=8 class=<Transient> requested_bytes=4096 free_bytes=512 elapsed=ELAPSED error="the script says so"
        INFO toma: message=<answered> call=CALL name="work" size=8 answer=<tries it once more>
        DEBUG toma: message=<attempt> call=CALL name="work" start=0 end=8
        WARN toma: message=<failed> call=CALL name="work" start=0 end=8 size=8 class=<OutOfMemory> requested_bytes=4096 free_bytes=512 elapsed=ELAPSED error="the script says so"
        INFO toma: message=<answered> call=CALL name="work" size=8 answer=<shrinks to 4>
        DEBUG toma: message=<attempt> call=CALL name="work" start=0 end=4
        DEBUG toma: message=<succeeded> call=CALL name="work" start=0 end=4 elapsed=ELAPSED
        INFO toma: message=<probe> call=CALL name="work" from=4 to=6
        DEBUG toma: message=<attempt> call=CALL name="work" start=4 end=10
        DEBUG toma: message=<succeeded> call=CALL name="work" start=4 end=10 elapsed=ELAPSED
        INFO toma: message=<probe> call=CALL name="work" from=6 to=7
        DEBUG toma: message=<attempt> call=CALL name="work" start=10 end=17
        WARN toma: message=<failed> call=CALL name="work" start=10 end=17 size=7 class=<Other> elapsed=ELAPSED error="the script says so"
        INFO toma: message=<answered> call=CALL name="work" size=7 answer=<gives up: not out of memory>
        INFO toma: message=<settled> call=CALL name="work" size=6
        DEBUG toma: message=<finished> call=CALL name="work" attempts=5 out_of_memory=1
        DEBUG toma: message=<started> call=CALL name="work" initial=4 start=4 length=4 remembered=6
        DEBUG toma: message=<attempt> call=CALL name="work" start=0 end=4
        DEBUG toma: message=<succeeded> call=CALL name="work" start=0 end=4 elapsed=ELAPSED
        DEBUG toma: message=<finished> call=CALL name="work" attempts=1 out_of_memory=0
    "#]].assert_eq(&received);
    });
}

#[test]
fn a_level_lets_through_what_is_as_urgent() {
    alone("observing::traced::a_level_lets_through_what_is_as_urgent", || {
        let all = received(LevelFilter::DEBUG);
        let rank = |line: &str| ["WARN", "INFO", "DEBUG"].iter().position(|level| line.starts_with(level));
        let levels = [LevelFilter::WARN, LevelFilter::INFO];
        for (most, level) in levels.into_iter().enumerate() {
            let expected: Vec<_> = all.lines().filter(|line| rank(line).unwrap() <= most).collect();
            assert!(!expected.is_empty());
            assert_eq!(received(level).lines().collect::<Vec<_>>(), expected, "{level}");
        }
    });
}

#[test]
fn nothing_is_built_for_a_level_below_all_events() {
    alone("observing::traced::nothing_is_built_for_a_level_below_all_events", || {
        for level in [LevelFilter::OFF, LevelFilter::ERROR] {
            let received = Collect::up_to(level).during(|| {
                let call = || execute::with::<NoCache>().range(0..100, 10, |_, _| ());
                call();
                let built = allocation_counter::measure(call);
                assert_eq!(built.count_total, 0, "{level}");
                // The clock was not read for the failure either.
                execute::with::<NoCache>().range(0..8, 8, |start, end| fits(end - start, 4)).unwrap();
                assert!(!report::last().unwrap().time_lost_is_exact, "{level}");
            });
            assert_eq!(received, "", "{level}");
        }
    });
}

#[test]
fn a_listener_makes_the_engine_read_the_clock() {
    alone("observing::traced::a_listener_makes_the_engine_read_the_clock", || {
        let received = Collect::up_to(LevelFilter::WARN).during(|| {
            execute::with::<NoCache>().range(0..8, 8, |start, end| fits(end - start, 4)).unwrap();
            assert!(report::last().unwrap().time_lost_is_exact);
        });
        assert_eq!(received.lines().count(), 1, "{received}");
    });
}
