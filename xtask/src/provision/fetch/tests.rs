use std::fs;
use std::io::{BufRead as _, BufReader, Result as IoResult, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::json;

use super::*;
use crate::scratch::Scratch;

const FILE: &[u8] = b"half a gigabyte is too much to begin again";

const SHA256: &str = "c4f7197bf47ee59926fb79077c51faf3598219f1f53d9fd715e3472a2745cc69";

/// Serves the file, on one connection after the other only so many bytes of it, and tells which
/// byte each began at. Gives the address.
fn server(mut allowances: Vec<usize>) -> (String, Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/a%20file.whl", listener.local_addr().unwrap());
    let (tell, begins) = channel();
    allowances.reverse();
    thread::spawn(move || {
        while let Some(allowance) = allowances.pop() {
            let Ok(first) = serve(listener.accept().unwrap().0, allowance) else { return };
            let _ = tell.send(first);
        }
    });
    (address, begins)
}

fn serve(mut stream: TcpStream, allowance: usize) -> IoResult<usize> {
    let lines = BufReader::new(stream.try_clone()?).lines().map_while(Result::ok);
    let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    let range = head.iter().find_map(|line| line.strip_prefix("Range: bytes=")?.strip_suffix('-'));
    let begin: usize = range.map_or(0, |begin| begin.parse().unwrap());
    let (status, rest) = (if range.is_some() { "206 Partial Content" } else { "200 OK" }, &FILE[begin..]);
    write!(stream, "HTTP/1.0 {status}\r\nContent-Length: {}\r\n\r\n", rest.len())?;
    stream.write_all(&rest[..allowance.min(rest.len())])?;
    Ok(begin)
}

/// Runs the script as `resumable` does, over a report of one file.
fn fetch(scratch: &Scratch, url: &str, sha256: &str) -> Result<bool> {
    let hash = format!("sha256={sha256}");
    let report =
        json!({ "install": [{ "download_info": { "url": url, "archive_info": { "hash": hash } } }] });
    scratch.file("report.json", &report.to_string());
    let mut script = Command::new("python3");
    script.args(["-c", SCRIPT]).arg(scratch.path("report.json")).arg(scratch.root()).arg("plain");
    ended(script.env("no_proxy", "*").output()?.status)
}

#[test]
fn a_download_goes_on_where_its_connection_ended() {
    let scratch = Scratch::new("fetch-cut");
    let (url, begins) = server(vec![10, 15, 100]);
    assert!(fetch(&scratch, &url, SHA256).unwrap());
    assert_eq!(fs::read(scratch.path("a file.whl")).unwrap(), FILE);
    assert_eq!(begins.iter().collect::<Vec<_>>(), [0, 10, 25]);
    assert!(!scratch.path("a file.whl.part").exists());
}

#[test]
fn a_later_run_goes_on_where_one_was_killed_and_then_has_nothing_to_do() {
    let scratch = Scratch::new("fetch-killed");
    scratch.file("a file.whl.part", "half a gigabyte");
    let (url, begins) = server(vec![100]);
    assert!(fetch(&scratch, &url, SHA256).unwrap());
    assert_eq!(fs::read(scratch.path("a file.whl")).unwrap(), FILE);
    assert_eq!(begins.iter().collect::<Vec<_>>(), [15]);
    // The server is gone: this cannot have asked it.
    assert!(fetch(&scratch, &url, SHA256).unwrap());
}

#[test]
fn a_file_of_another_checksum_is_removed() {
    let scratch = Scratch::new("fetch-wrong");
    scratch.file("a file.whl.part", "HALF");
    let (url, _begins) = server(vec![100]);
    let error = fetch(&scratch, &url, SHA256).unwrap_err().to_string();
    assert!(error.contains("not the one of its checksum") && error.contains("from its beginning"), "{error}");
    assert!(!error.contains("where it stopped"), "{error}");
    assert!(!scratch.path("a file.whl").exists() && !scratch.path("a file.whl.part").exists());
}

#[test]
fn what_cannot_be_begun_is_left_to_pip() {
    let scratch = Scratch::new("fetch-nowhere");
    assert!(!fetch(&scratch, "http://127.0.0.1:9/a.whl", SHA256).unwrap());
    // Once begun it is ours: pip would begin it again.
    scratch.file("a file.whl", "something else");
    let (url, _begins) = server(vec![100]);
    assert!(fetch(&scratch, &url, SHA256).unwrap());
}

#[test]
fn what_is_there_counts_towards_the_room_that_is_needed() {
    let scratch = Scratch::new("fetched");
    scratch.file("a.whl", "12345");
    scratch.file("b.whl.part", "123");
    assert_eq!(fetched(scratch.root()), 8);
    assert_eq!(fetched(&scratch.path("nowhere")), 0);
}
