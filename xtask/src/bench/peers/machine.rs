//! On what the figures were taken.

use crate::project::Project;

/// One sentence: when, on which machine, how busy it was, and with what.
pub(super) fn describe(project: &Project) -> String {
    let read = |path: &str| project.shell.read_file(path).unwrap_or_default();
    let asked = |program: &str, args: &[&str]| project.command(program).args(args).quiet().read().ok();
    let date = asked("date", &["-u", "+%F"]).unwrap_or_default();
    let rust = asked("rustc", &["--version"]).unwrap_or_default();
    let rust = rust.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (cpuinfo, loadavg) = (read("/proc/cpuinfo"), read("/proc/loadavg"));
    let (processor, load) = (processor(&cpuinfo), load(&loadavg));
    format!("{date}, {cores} cores of {processor}, load average {load} before; {rust}.")
}

fn processor(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| "an unknown processor".to_owned(), |(_, name)| name.trim().to_owned())
}

fn load(loadavg: &str) -> &str {
    loadavg.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_where_the_system_names_it() {
        let text = "processor\t: 0\nmodel name\t: A Chip: fast \nmodel name\t: Another\n";
        assert_eq!(processor(text), "A Chip: fast");
        assert_eq!(processor("processor\t: 0\n"), "an unknown processor");
    }

    #[test]
    fn the_load_is_that_of_the_last_minute() {
        assert_eq!(load("0.07 0.57 1.19 2/99 7\n"), "0.07");
        assert_eq!(load(""), "unknown");
    }
}
