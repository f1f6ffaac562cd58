//! Address and number of this rank, from environment variables.

use std::env::VarError;

use toma_core::ranks::Error;

/// Values of the environment variables.
#[derive(Debug, PartialEq)]
pub(super) struct Variables {
    pub(super) address: String,
    pub(super) rank: usize,
    pub(super) size: usize,
    /// True if this process serves the store.
    pub(super) serves: bool,
    /// Number of restarts, which separates the keys of this start from those of earlier ones.
    pub(super) restarts: String,
}

impl Variables {
    pub(super) fn read(variable: impl Fn(&'static str) -> Result<String, VarError>) -> Result<Self, Error> {
        let given = |name| variable(name).map_err(|error| invalid(format!("{name}: {error}")));
        let number = |name| {
            let text = given(name)?;
            text.parse().map_err(|_| invalid(format!("{name} {text:?}: must be a number from 0")))
        };
        let (host, port) = (given("MASTER_ADDR")?, given("MASTER_PORT")?);
        let (rank, size) = (number("RANK")?, number("WORLD_SIZE")?);
        // Set if the process of `torchrun` itself serves the store.
        let served = variable("TORCHELASTIC_USE_AGENT_STORE").is_ok_and(|value| value == "True");
        let restarts = variable("TORCHELASTIC_RESTART_COUNT").unwrap_or_else(|_| "0".to_owned());
        Ok(Self { address: format!("{host}:{port}"), rank, size, serves: rank == 0 && !served, restarts })
    }
}

/// Splits `host:29500`; the host of an IPv6 address may stand in brackets.
pub(super) fn host_and_port(address: &str) -> Result<(&str, u16), Error> {
    let parts = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok().filter(|port| *port > 0)?)));
    let (host, port) = parts
        .ok_or_else(|| invalid(format!("address {address:?}: must be a host and a port, host:29500")))?;
    Ok((host.trim_start_matches('[').trim_end_matches(']'), port))
}

pub(super) fn check(rank: usize, size: usize) -> Result<(), Error> {
    if size == 0 {
        return Err(invalid("size 0: must be at least 1".to_owned()));
    }
    if rank >= size {
        return Err(invalid(format!("rank {rank}: must be below size {size}")));
    }
    Ok(())
}

fn invalid(message: String) -> Error {
    Error::Invalid(message)
}

#[cfg(test)]
mod tests {
    use std::env::VarError;

    use super::{Variables, host_and_port};

    fn read(given: &[(&str, &str)]) -> Result<Variables, String> {
        let variable = |name: &str| {
            let found = given.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned()).ok_or(VarError::NotPresent)
        };
        Variables::read(variable).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_are_those_of_torchrun() {
        let mut given =
            vec![("MASTER_ADDR", "node0"), ("MASTER_PORT", "29500"), ("RANK", "0"), ("WORLD_SIZE", "4")];
        let read_now = read(&given).unwrap();
        assert_eq!((&*read_now.address, read_now.rank, read_now.size), ("node0:29500", 0, 4));
        assert!(read_now.serves);
        given.extend([("TORCHELASTIC_USE_AGENT_STORE", "True"), ("TORCHELASTIC_RESTART_COUNT", "2")]);
        let restarted = read(&given).unwrap();
        assert_eq!((restarted.serves, &*restarted.restarts), (false, "2"));
    }

    #[test]
    fn each_mistake_names_its_variable() {
        let all = [("MASTER_ADDR", "node0"), ("MASTER_PORT", "29500"), ("RANK", "0"), ("WORLD_SIZE", "4")];
        for missing in 0..4 {
            let given: Vec<_> = (0..4).filter(|at| *at != missing).map(|at| all[at]).collect();
            let expected = format!("{}: environment variable not found", all[missing].0);
            assert_eq!(read(&given), Err(expected));
        }
        let mut given = all;
        given[2].1 = "-1";
        assert_eq!(read(&given), Err("RANK \"-1\": must be a number from 0".to_owned()));
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert_eq!(host_and_port("node0:29500"), Ok(("node0", 29500)));
        assert_eq!(host_and_port("[::1]:29500"), Ok(("::1", 29500)));
        for wrong in ["node0", "node0:", ":29500", "node0:0", "node0:99999", "node0:x"] {
            let message = host_and_port(wrong).unwrap_err().to_string();
            assert_eq!(message, format!("address {wrong:?}: must be a host and a port, host:29500"));
        }
    }
}
