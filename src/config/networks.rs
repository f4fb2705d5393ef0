//! Addresses and networks in CIDR notation.

use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A list of addresses and networks, each written `192.0.2.7` or `10.0.0.0/8`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Networks {
    /// As they were written, to be shown again.
    written: Vec<String>,
    networks: Vec<Network>,
}

impl Networks {
    /// Networks that are known to be valid.
    pub(super) fn known(written: &[&str]) -> Self {
        let written: Vec<_> = written.iter().map(|network| (*network).to_owned()).collect();
        Self::try_from(written).expect("the defaults are addresses")
    }

    /// Whether an address lies in one of them. An IPv4 address mapped into IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address.to_canonical()))
    }
}

impl TryFrom<Vec<String>> for Networks {
    type Error = String;

    fn try_from(written: Vec<String>) -> Result<Self, String> {
        let networks = written.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        Ok(Self { written, networks })
    }
}

impl From<Networks> for Vec<String> {
    fn from(networks: Networks) -> Self {
        networks.written
    }
}

/// The addresses that share their first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

impl Network {
    fn contains(self, other: IpAddr) -> bool {
        let (own, other) = match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (left_aligned(own.to_bits()), left_aligned(other.to_bits())),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits(), other.to_bits()),
            _ => return false,
        };
        // A shift by all 128 bits is none; nothing has to agree then.
        (own ^ other).checked_shr(128 - self.prefix_bits).unwrap_or(0) == 0
    }
}

fn left_aligned(bits: u32) -> u128 {
    u128::from(bits) << 96
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is not an address or a network; write `192.0.2.7` or `10.0.0.0/8`");
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.trim().parse().map_err(|_| refused())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = prefix.map_or(Ok(bits_max), |bits| bits.trim().parse()).map_err(|_| refused())?;
        if prefix_bits > bits_max {
            return Err(refused());
        }
        Ok(Self { address, prefix_bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(networks: &[&str], address: &str) -> bool {
        Networks::known(networks).contains(address.parse().expect("an address"))
    }

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        for (network, inside, outside) in [
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.0"),
            ("192.0.2.128/25", "192.0.2.200", "192.0.2.127"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
            ("::1", "::1", "::2"),
            ("127.0.0.1", "::ffff:127.0.0.1", "::1"),
            ("0.0.0.0/0", "203.0.113.9", "2001:db8::1"),
        ] {
            assert!(contains(&[network], inside), "{network} contains {inside}");
            assert!(!contains(&[network], outside), "{network} does not contain {outside}");
        }
        assert!(contains(&["127.0.0.1", "::/0"], "2001:db8::1") && !contains(&[], "127.0.0.1"));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "localhost", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/x", "::/129", "10.0.0"] {
            assert!(Networks::try_from(vec![text.to_owned()]).is_err(), "{text}");
        }
    }
}
