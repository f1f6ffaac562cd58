//! Lines on standard error about a site.

use super::key::Site;
use super::recent::Recent;

/// Sites and topics about which a line was printed.
static SAID: Recent<(Site, &str), ()> = Recent::new();

/// Prints one line for each site and topic, however many predictions the site has.
pub(super) fn say_once(site: &Site, about: &'static str, text: &str) {
    let said = (site.clone(), about);
    if SAID.of(&said).is_none() {
        SAID.keep(said, ());
        say(site, text);
    }
}

pub(super) fn say(site: &Site, text: &str) {
    toma_core::predict::say(&format!("toma: {}: {text}", site.caller));
}
