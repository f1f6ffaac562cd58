//! Lines on standard error about a site.

use super::key::Site;
use super::recent::Recent;

/// Sites and topics about which a line was printed.
static PRINTED: Recent<(Site, &str), ()> = Recent::new();

/// Prints one line for each site and topic, however many predictions the site has.
pub(super) fn print_once(site: &Site, about: &'static str, text: &str) {
    let topic = (site.clone(), about);
    if PRINTED.of(&topic).is_none() {
        PRINTED.keep(topic, ());
        print(site, text);
    }
}

pub(super) fn print(site: &Site, text: &str) {
    toma_core::predict::print(&format!("toma: {}: {text}", site.caller));
}
