//! Which addresses lie in networks that strangers cannot reach, and that a URL must therefore not lead us to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Blocks of IPv4 that are not the public internet, as address and length of prefix (IANA's special-purpose registry).
const V4: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),       // this network
    ([10, 0, 0, 0], 8),      // private
    ([100, 64, 0, 0], 10),   // shared between carriers and their customers
    ([127, 0, 0, 0], 8),     // loopback
    ([169, 254, 0, 0], 16),  // link-local, and the metadata servers of clouds
    ([172, 16, 0, 0], 12),   // private
    ([192, 0, 0, 0], 24),    // protocol assignments
    ([192, 0, 2, 0], 24),    // documentation
    ([192, 31, 196, 0], 24), // AS112
    ([192, 52, 193, 0], 24), // automatic multicast tunnels
    ([192, 88, 99, 0], 24),  // relays from 6to4, long gone
    ([192, 168, 0, 0], 16),  // private
    ([198, 18, 0, 0], 15),   // benchmarks
    ([198, 51, 100, 0], 24), // documentation
    ([203, 0, 113, 0], 24),  // documentation
    ([224, 0, 0, 0], 3),     // multicast, reserved, broadcast
];

/// Blocks of IPv6 within global unicast that are not the public internet. Everything outside 2000::/3 is none either.
const V6: [([u16; 8], u32); 4] = [
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),     // protocol assignments, Teredo among them
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
    ([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48), // AS112
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),     // documentation
];

/// Whether an address is anything but one of the public internet. In doubt it is.
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => is_private_v4(v4),
            None => is_private_v6(v6),
        },
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let bits = u32::from(address);
    V4.iter().any(|(block, length)| (bits ^ u32::from(Ipv4Addr::from(*block))) >> (32 - length) == 0)
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let bits = u128::from(address);
    let global = address.segments()[0] & 0xe000 == 0x2000;
    !global || V6.iter().any(|(block, length)| (bits ^ u128::from(Ipv6Addr::from(*block))) >> (128 - length) == 0)
}

/// The IPv4 address that an IPv6 address stands for: mapped, translated (NAT64) or tunnelled (6to4). What leads to a private
/// network in another spelling is private, too.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match s {
        [0, 0, 0, 0, 0, 0xffff, high, low] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(addresses: &str, private: bool) {
        for text in addresses.split_whitespace() {
            assert_eq!(is_private(text.parse().expect("an address")), private, "{text}");
        }
    }

    #[test]
    fn private_networks_are_known_in_every_spelling() {
        check("0.0.0.0 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.9.9.9 169.254.169.254", true);
        check(
            "172.16.0.1 172.31.255.255 192.168.0.1 198.18.0.1 198.19.255.255 224.0.0.1 240.0.0.1 255.255.255.255",
            true,
        );
        check("192.0.0.8 192.0.2.1 198.51.100.1 203.0.113.1 192.88.99.1", true);
        check(":: ::1 fe80::1 fec0::1 fc00::1 fd12:3456::1 ff02::1 2001:db8::1 2001::1 100::1 3fff::1 5f00::1", true);
        check("::ffff:127.0.0.1 ::ffff:10.1.2.3 ::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b::a9fe:a9fe 2002:7f00:1::1", true);
        check("64:ff9b:1::1 2002:a00:1:: 2002:c0a8:101::1", true);
    }

    #[test]
    fn the_public_internet_is_not_private() {
        check("1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0", false);
        check("192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 169.253.255.255", false);
        check(
            "2606:4700::1111 2a00:1450::1 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1",
            false,
        );
    }

    proptest! {
        /// A spelling in IPv6 is as private as the address it stands for.
        #[test]
        fn no_spelling_opens_a_door(v4 in any::<u32>(), rest in any::<[u16; 5]>()) {
            let plain = Ipv4Addr::from(v4);
            let (high, low) = ((v4 >> 16) as u16, v4 as u16);
            let mapped = plain.to_ipv6_mapped();
            let translated = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low);
            let tunnelled = Ipv6Addr::new(0x2002, high, low, rest[0], rest[1], rest[2], rest[3], rest[4]);
            for spelling in [mapped, translated, tunnelled] {
                prop_assert_eq!(is_private(spelling.into()), is_private(plain.into()), "{}", spelling);
            }
        }

        /// Whatever the standard library knows to be special is private here.
        #[test]
        fn what_the_library_calls_special_is_private(v4 in any::<u32>()) {
            let v4 = Ipv4Addr::from(v4);
            let special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_broadcast()
                || v4.is_documentation() || v4.is_multicast() || v4.is_unspecified();
            prop_assert!(!special || is_private(v4.into()), "{}", v4);
        }

        #[test]
        fn nothing_outside_global_unicast_is_public(v6 in any::<u128>()) {
            let v6 = Ipv6Addr::from(v6);
            let global = v6.segments()[0] & 0xe000 == 0x2000;
            prop_assert!(global || embedded(v6).is_some() || is_private(v6.into()), "{}", v6);
        }
    }
}
