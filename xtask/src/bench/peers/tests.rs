use std::process::Command;

use xshell::Shell;

use super::session::{Case, Samples, Variant};
use super::*;

fn variant(form: &str, cache: &str, policy: &str) -> Variant {
    Variant { form: form.into(), cache: cache.into(), policy: policy.into() }
}

/// A variant, a group, and what it came to in each round.
type Measured<'a> = (Variant, &'a str, &'a [(&'a str, &'a [f64])]);

fn peer(language: &str, name: &str, cases: &[Measured<'_>]) -> Peer {
    let sampled = |figures: &[(&str, &[f64])]| -> Samples {
        figures.iter().map(|(name, figures)| ((*name).to_owned(), figures.to_vec())).collect()
    };
    let case = |(variant, group, figures): &Measured<'_>| Case {
        variant: variant.clone(),
        group: (*group).into(),
        samples: sampled(figures),
    };
    Peer {
        language: language.into(),
        name: name.into(),
        version: if name == "loop" { String::new() } else { "1.0".into() },
        about: format!("about {name}"),
        cases: cases.iter().map(case).collect(),
    }
}

fn run(ms: &'static [f64], ooms: &'static [f64]) -> [(&'static str, &'static [f64]); 6] {
    [
        ("cold_ms", ms),
        ("warm_ms", ms),
        ("cold_ooms", ooms),
        ("warm_ooms", &[0.0, 0.0, 0.0]),
        ("cold_kept_percent", &[50.0, 75.0, 75.0]),
        ("warm_kept_percent", &[75.0, 75.0, 75.0]),
    ]
}

fn worlds() -> Vec<World> {
    let json = r#"[{ "name": "w", "rows": 1000, "initial": 64, "limit": 40, "halves": true }]"#;
    serde_json::from_str(json).unwrap()
}

/// Two loops, the second of which is faster in the middle though not at its fastest, and a peer that
/// is measured on a machine that grows slower from round to round.
fn answers() -> Vec<Peer> {
    let (slow, fast) = (run(&[5.0, 30.0, 60.0], &[0.0]), run(&[10.0, 20.0, 40.0], &[0.0]));
    let base = peer(
        "Rust",
        "loop",
        &[
            (variant("batch", "", ""), "overhead", &[("call_us", &[1.0, 2.0, 3.0])]),
            (
                variant("range", "", ""),
                "overhead",
                &[("call_us", &[2.0, 2.0, 2.0]), ("chunk_us", &[1.0, 5.0, 9.0])],
            ),
            (variant("range", "", "1/1"), "w", &slow),
            (variant("range", "", "1/2"), "w", &fast),
        ],
    );
    let runs = run(&[20.0, 30.0, 60.0], &[3.0, 3.0, 3.0]);
    let ours = peer(
        "Rust",
        "toma",
        &[
            (
                variant("range", "C", "P"),
                "overhead",
                &[("call_us", &[3.0, 4.0, 5.0]), ("chunk_us", &[3.0, 7.0, 11.5])],
            ),
            (variant("range", "C", "P"), "w", &runs),
            (variant("find", "", "<&"), "overhead", &[("call_us", &[1001.0, 1002.0, 1003.0])]),
        ],
    );
    vec![base, ours]
}

#[test]
fn figures_are_compared_round_by_round_and_with_the_best_loop() {
    let rows = rows(&answers(), &worlds()).unwrap();
    let [by_hand, ours, other] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((by_hand.call_us, by_hand.chunk_us), (Some(2.0), Some(5.0)));
    assert_eq!((by_hand.runs[0]["cold_ms"], by_hand.runs[0]["warm_ratio"]), (20.0, 1.0));
    assert_eq!((ours.call_us, ours.chunk_us), (Some(2.0), Some(2.0)));
    // 2, 1.5 and 1.5 of the better loop in the same round.
    for (name, right) in [("ms", 30.0), ("ratio", 1.5), ("ooms", 3.0), ("kept_percent", 75.0)] {
        assert_eq!(ours.runs[0].get(&format!("cold_{name}")), Some(&right), "{name}");
    }
    assert_eq!((other.call_us, other.chunk_us, other.runs.len()), (Some(1000.0), None, 0));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let without_loop = answers().split_off(1);
    let error = rows(&without_loop, &worlds()).unwrap_err().to_string();
    assert_eq!(error, "no loop in Rust");
    let mut more = worlds();
    more.push(World { name: "x".into(), ..more[0].clone() });
    let error = rows(&answers(), &more).unwrap_err().to_string();
    assert_eq!(error, "world `x`: no loop");
    let mut lacking = answers();
    lacking[1].cases[1].samples.remove("warm_ooms");
    let error = rows(&lacking, &worlds()).unwrap_err().to_string();
    assert_eq!(error, "no figure `warm_ooms`");
}

#[test]
fn tables_name_every_row_and_leave_out_what_was_not_measured() {
    let rows = rows(&answers(), &worlds()).unwrap();
    let whole = text::whole(&rows, &worlds(), "A machine.");
    for line in [
        "| loop (Rust) | `range` |  | best fixed size | 2.0 | 5.0 | 0 | 75 | 1.00 | 1.00 |",
        "| toma 1.0 (Rust) | `range` | `C` | `P` | 2.0 | 2.0 | 3 | 75 | 1.50 | 1.50 |",
        "| toma 1.0 (Rust) | `find` |  | `<&` | 1,000 |  |  |  |  |  |",
        "| toma 1.0 (Rust) | `range` | `C` | `P` | 30 | 30 | 0 |",
        "- 1,000 rows, 64 tried first, 40 fit, 20 after half of them",
    ] {
        assert!(whole.lines().any(|found| found.ends_with(line)), "{line}\n{whole}");
    }
    assert_eq!(about(&answers()), " about loop. about toma.");
    let short = text::short(&[&rows[0]], &worlds(), "A machine.");
    assert!(short.contains("| loop (Rust) |") && !short.contains("| toma 1.0 (Rust) |"), "{short}");
}

#[test]
fn the_plot_shows_every_figure() {
    let rows = rows(&answers(), &worlds()).unwrap();
    let svg = plot::svg(&rows.iter().collect::<Vec<_>>(), &worlds());
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    // The names of the rows; two overheads and three kinds of figures of each whole run, one more overhead; the legend.
    assert_eq!(svg.matches("<circle").count(), 3 + 2 * (1 + 3) + 1 + 1);
}

#[test]
fn chosen_are_ranges_that_remember_and_those_without_a_cache() {
    let mut rows = rows(&answers(), &worlds()).unwrap();
    for (row, cache) in rows.iter_mut().zip(["", "NoCache", ""]) {
        row.variant.cache = cache.into();
    }
    let chosen: Vec<_> = rows.iter().filter(|row| row.is_chosen()).map(|row| &*row.variant.form).collect();
    assert_eq!(chosen, ["range", "find"]);
}

#[test]
fn the_readme_shows_each_library_as_it_is_used_without_options_and_what_is_recommended() {
    let mut rows = rows(&answers(), &worlds()).unwrap();
    let mut is_summary = |form: &str, cache: &str, policy: &str| {
        rows[1].variant = variant(form, cache, policy);
        rows[1].is_summary()
    };
    assert!(is_summary("find", "", "0.9 of it"));
    assert!(is_summary("range", "StacktraceMemoryBatchsizeCache", "half of it"));
    assert!(is_summary("range", "StacktraceMemoryCache", "Halve"));
    assert!(is_summary("range", "GlobalCache", "Adaptive"));
    assert!(!is_summary("batch", "GlobalCache", "Adaptive"));
    assert!(!is_summary("range", "GlobalCache", "Halve"));
    assert!(!is_summary("range", "NoCache", "Adaptive"));
    assert!(!rows[0].is_summary(), "a loop by hand");
}

#[test]
fn the_readme_has_five_rows_of_the_record() {
    let [readme, record] = DOCUMENTS.map(|text| text.split_once(BEGIN).unwrap().1.split_once(END).unwrap().0);
    let names: Vec<_> = readme.lines().filter(|line| line.starts_with("| ")).skip(1).map(names).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    for name in names {
        assert!(record.lines().any(|line| line.starts_with(&name)), "not in the record: {name}");
    }
}

/// The first four columns, and the one that both tables have next.
fn names(line: &str) -> String {
    line.split_inclusive('|').take(6).collect()
}

const DOCUMENTS: [&str; 2] =
    [include_str!("../../../../README.md"), include_str!("../../../../benches/RESULTS.md")];

#[test]
fn the_documents_have_a_place_for_the_figures() {
    for text in DOCUMENTS {
        with_part(text, "figures").unwrap();
    }
    assert_eq!(serde_json::from_str::<Vec<World>>(WORLDS).unwrap().len(), 3);
}

#[test]
fn the_peers_in_python_pass_their_own_tests() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/peers/test_peers.py");
    let output = Command::new("python3").args(["-B", script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A process that greets with these cases, and then does what the script says.
fn worker(shell: &Shell, cases: &[&str], script: &str) -> Result<(Worker, Peer)> {
    let cases = cases.iter().map(|form| format!(r#"{{"form":"{form}","cache":"","policy":"","group":"w"}}"#));
    let cases = cases.collect::<Vec<_>>().join(",");
    let hello = format!(r#"{{"language":"sh","peer":"p","version":"1","cases":[{cases}]}}"#);
    Worker::start(shell.cmd("sh").args(["-c", &format!("echo '{hello}'\n{script}")]))
}

#[test]
fn every_case_is_asked_for_once_a_round_and_every_other_round_backwards() {
    let shell = Shell::new().unwrap();
    let count =
        "n=0; while read -r case; do n=$((n + 1)); echo \"{\\\"asked\\\": $n, \\\"case\\\": $case}\"; done";
    let workers = [worker(&shell, &["a", "b"], count).unwrap(), worker(&shell, &["c"], count).unwrap()];
    let answers = session::rounds(workers.into(), 2).unwrap();
    let asked = |worker: usize, case: usize| answers[worker].cases[case].samples["asked"].clone();
    assert_eq!([asked(0, 0), asked(0, 1), asked(1, 0)], [[1.0, 4.0], [2.0, 3.0], [1.0, 2.0]]);
    assert_eq!(answers[0].cases[1].samples["case"], [1.0, 1.0]);
}

#[test]
fn a_process_that_fails_or_talks_nonsense_is_named() {
    let shell = Shell::new().unwrap();
    for (script, said) in
        [("exit 3", "ended without an answer"), ("read -r case; echo nonsense", "`nonsense`")]
    {
        let workers = vec![worker(&shell, &["a"], script).unwrap()];
        let error = format!("{:#}", session::rounds(workers, 1).unwrap_err());
        assert!(error.contains(said) && error.contains("`sh -c"), "{error}");
    }
    let error = worker(&shell, &["a", "a"], "").map(drop).unwrap_err();
    assert!(format!("{error:#}").contains("two cases of one name"), "{error:#}");
    let error = Worker::start(shell.cmd("sh").args(["-c", "echo hello"])).map(drop).unwrap_err();
    assert!(format!("{error:#}").contains("no greeting: `hello`"), "{error:#}");
}

#[test]
fn only_what_stands_between_the_marks_is_replaced() {
    let old = format!("a\n{BEGIN}\nold\n{END}\nb {END}\n");
    let new = with_part(&old, "\nnew\n").unwrap();
    assert_eq!(new, format!("a\n{BEGIN}\n\nnew\n\n{END}\nb {END}\n"));
    assert_eq!(with_part(&new, "new").unwrap(), new);
}

#[test]
fn a_document_without_marks_is_left_alone() {
    for text in [String::new(), BEGIN.to_owned(), END.to_owned(), format!("{END}\n{BEGIN}")] {
        assert!(with_part(&text, "new").is_err(), "{text}");
    }
}
