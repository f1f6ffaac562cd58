//! Processes that act as ranks.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::process::{Child, ChildStdout};
use std::thread;
use std::time::{Duration, Instant};

use toma_core::ranks::Error;
use toma_torch::ranks::{Ranks, Rendezvous};

use crate::child;

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A process that acts as a rank.
pub(crate) struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

/// Starts this test as a rank; `None` in that process.
pub(crate) fn start(
    test: &str,
    port: u16,
    rank: usize,
    size: usize,
    more: &[(&str, &str)],
) -> Option<Process> {
    let (port, rank, size) = (port.to_string(), rank.to_string(), size.to_string());
    let mut settings = vec![
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", &*port),
        ("RANK", &*rank),
        ("WORLD_SIZE", &*size),
        ("OMP_NUM_THREADS", "1"),
    ];
    settings.extend(more);
    let mut child = child::start(test, &settings)?;
    let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    Some(Process { child, stdout })
}

/// Starts `size` ranks of this test; `None` in each of them.
pub(crate) fn start_all(test: &str, size: usize) -> Option<Vec<Process>> {
    let port = free_port();
    (0..size).map(|rank| start(test, port, rank, size, &[])).collect()
}

impl Process {
    /// Waits until the process prints this line.
    pub(crate) fn waits_for_line(&mut self, line: &str) {
        let mut seen = String::new();
        while !seen.lines().last().is_some_and(|last| last.ends_with(line)) {
            assert!(self.stdout.read_line(&mut seen).unwrap() > 0, "{line:?} is not printed:\n{seen}");
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits until the process ends successfully, within `limit`, and returns its standard error.
    pub(crate) fn ends_within(mut self, limit: Duration) -> String {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > limit {
                self.child.kill().unwrap();
                panic!("it hangs: {}", self.stderr());
            }
            thread::sleep(Duration::from_millis(10));
        };
        let stderr = self.stderr();
        assert!(status.success(), "{status}\n{stderr}");
        stderr
    }

    fn stderr(&mut self) -> String {
        let mut stderr = String::new();
        self.child.stderr.take().expect("it is piped").read_to_string(&mut stderr).unwrap();
        stderr
    }
}

/// Joins the other ranks, in such a process. Waits two seconds for them, because processes of libtorch start slowly on
/// busy cores.
pub(crate) fn join() -> Result<Ranks, Error> {
    let timeout = env::var("TIMEOUT_MS").ok().and_then(|timeout| timeout.parse().ok()).unwrap_or(2000);
    Rendezvous::default().timeout(Duration::from_millis(timeout)).from_env()
}
