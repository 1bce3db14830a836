//! What kind of address an address is: one table from the IANA registries of special-purpose addresses, and the ways
//! in which IPv6 carries an IPv4 address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

use crate::refusal::AddressClass::{self, LinkLocal, Loopback, Metadata, Private, Public, Special};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(segments: [u16; 8], prefix: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}

/// Everything that is not globally reachable. Addresses that the registry exempts inside a block (anycast of the
/// IETF in 192.0.0.0/24) stay refused: no API is served there.
pub(crate) const V4_BLOCKS: [(Ipv4Net, AddressClass); 15] = [
    (v4(0, 0, 0, 0, 8), Special), // "this network"; Linux dials 0.0.0.0 as loopback
    (v4(10, 0, 0, 0, 8), Private),
    (v4(100, 64, 0, 0, 10), Private), // shared between carrier and customer; overlay networks use it
    (v4(127, 0, 0, 0, 8), Loopback),
    (v4(169, 254, 0, 0, 16), LinkLocal),
    (v4(172, 16, 0, 0, 12), Private),
    (v4(192, 0, 0, 0, 24), Special),   // IETF protocol assignments
    (v4(192, 0, 2, 0, 24), Special),   // documentation
    (v4(192, 88, 99, 0, 24), Special), // 6to4 relays, withdrawn
    (v4(192, 168, 0, 0, 16), Private),
    (v4(198, 18, 0, 0, 15), Special),   // benchmarks
    (v4(198, 51, 100, 0, 24), Special), // documentation
    (v4(203, 0, 113, 0, 24), Special),  // documentation
    (v4(224, 0, 0, 0, 4), Special),     // multicast
    (v4(240, 0, 0, 0, 4), Special),     // reserved, and broadcast
];

/// The first match counts, and what is not in the table is refused as well: of IPv6, only 2000::/3 is given out.
pub(crate) const V6_BLOCKS: [(Ipv6Net, AddressClass); 9] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Loopback),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Private), // unique local
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), LinkLocal),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Special), // IETF protocol assignments, among them Teredo
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Special), // documentation
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), Special), // 6to4
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Special), // documentation
    (v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), Public),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 0), Special),
];

/// Metadata services of clouds, which hand credentials to whoever asks from inside.
pub(crate) const METADATA: [IpAddr; 9] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), // nearly all clouds
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),   // AWS ECS
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),  // AWS EKS
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), // Alibaba, inside the shared range
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),   // Azure, inside the public range
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),     // Oracle
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), // AWS
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)), // AWS EKS
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), // Google
];

/// The IPv4 address that packets end up at, where an IPv6 address is only another way to write it (mapped) or a
/// translator of the network sends them there (NAT64, well-known prefix); else the address itself.
pub(crate) fn decisive(address: IpAddr) -> IpAddr {
    const MAPPED: Ipv6Net = v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96);
    const NAT64: Ipv6Net = v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
    match address {
        IpAddr::V6(wide) if MAPPED.contains(&wide) || NAT64.contains(&wide) => low_bits(wide).into(),
        IpAddr::V4(_) | IpAddr::V6(_) => address,
    }
}

/// The class of an address, with what is embedded in it taken into account.
pub(crate) fn class_of(address: IpAddr) -> AddressClass {
    let address = decisive(address);
    if METADATA.contains(&address) {
        return Metadata;
    }
    match address {
        IpAddr::V4(narrow) => {
            V4_BLOCKS.iter().find(|(block, _)| block.contains(&narrow)).map_or(Public, |(_, class)| *class)
        }
        IpAddr::V6(wide) => {
            let outer = V6_BLOCKS
                .iter()
                .find(|(block, _)| block.contains(&wide))
                .map_or(Special, |(_, class)| *class);
            // A tunnel with a good outer address and a bad inner one is no better than the inner one, and no
            // allowance is meant for it. A metadata service is named as such whatever it is wrapped in.
            let inner = || tunnelled(wide).into_iter().flatten().map(|inner| class_of(inner.into()));
            if inner().any(|class| class == Metadata) {
                Metadata
            } else if outer == Public && inner().any(|class| class != Public) {
                Special
            } else {
                outer
            }
        }
    }
}

/// IPv4 addresses that other forms of IPv6 address carry.
fn tunnelled(wide: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let s = wide.segments();
    let low = low_bits(wide);
    match s {
        // IPv4-compatible, SIIT.
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => [Some(low), None],
        // NAT64 with a prefix of the network's own: RFC 6052 places the address by the prefix's length.
        [0x64, 0xff9b, 1, ..] => {
            [Some(low), Some(Ipv4Addr::from_bits(join(s[3], (s[4] & 0xff) << 8 | s[5] >> 8)))]
        }
        // Teredo: server, and client with its bits turned.
        [0x2001, 0, ..] => {
            [Some(Ipv4Addr::from_bits(join(s[2], s[3]))), Some(Ipv4Addr::from_bits(!low.to_bits()))]
        }
        // 6to4.
        [0x2002, ..] => [Some(Ipv4Addr::from_bits(join(s[1], s[2]))), None],
        // ISATAP, below any prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => [Some(low), None],
        _ => [None, None],
    }
}

fn low_bits(wide: Ipv6Addr) -> Ipv4Addr {
    let segments = wide.segments();
    Ipv4Addr::from_bits(join(segments[6], segments[7]))
}

fn join(high: u16, low: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Inside each block its class, or that of a metadata service; the addresses before and after it are of another
    /// block or public.
    // proves: C-H03
    #[test]
    fn blocks_end_where_they_should() {
        let apart = |address: Ipv4Addr| !V4_BLOCKS.iter().any(|(block, _)| block.contains(&address));
        for (block, class) in V4_BLOCKS {
            assert_eq!(class_of(block.network().into()), class, "first of {block}");
            assert_eq!(class_of(block.broadcast().into()), class, "last of {block}");
            let before = block.network().to_bits().checked_sub(1).map(Ipv4Addr::from_bits);
            let after = block.broadcast().to_bits().checked_add(1).map(Ipv4Addr::from_bits);
            for outside in [before, after].into_iter().flatten().filter(|address| apart(*address)) {
                assert_eq!(class_of(outside.into()), Public, "{outside} beside {block}");
            }
        }
        for (inside, class) in [
            ("2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", Special),
            ("2001:200::", Public),
            ("2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", Public),
            ("2001:db8::", Special),
            ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Special),
            ("2001:db9::", Public),
            ("2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Public),
            ("2002::", Special),
            ("2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Special),
            ("2003::", Public),
            ("1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Special),
            ("2000::", Public),
            ("3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Public),
            ("3fff::", Special),
            ("3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", Special),
            ("3fff:1000::", Public),
            ("4000::", Special),
            ("5f00::", Special),
            ("100::", Special),
            ("fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Special),
            ("fc00::", Private),
            ("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Private),
            ("fe00::", Special),
            ("fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Special),
            ("fe80::", LinkLocal),
            ("febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", LinkLocal),
            ("fec0::", Special),
            ("ff02::1", Special),
            ("::", Special),
            ("::1", Loopback),
            ("::2", Special),
        ] {
            assert_eq!(class_of(inside.parse().unwrap()), class, "{inside}");
        }
    }

    // proves: C-H02
    #[test]
    fn what_is_embedded_is_seen() {
        for (text, class) in [
            ("::ffff:127.0.0.1", Loopback),
            ("::ffff:10.0.0.1", Private),
            ("::ffff:8.8.8.8", Public),
            ("::127.0.0.1", Special),
            ("::8.8.8.8", Special),
            ("::169.254.169.254", Metadata),
            ("::ffff:0:169.254.169.254", Metadata),
            ("64:ff9b::a9fe:a9fe", Metadata),
            ("64:ff9b::7f00:1", Loopback),
            ("64:ff9b::8.8.8.8", Public),
            ("64:ff9b:1::", Special),
            ("64:ff9b:1:a9fe:a9:fe00::", Metadata),
            ("64:ff9b:1::8.8.8.8", Special),
            ("2002:7f00:1::", Special),
            ("2002:a9fe:a9fe::1", Metadata),
            ("2002:808:808::1", Special),
            ("2001:0:808:808::5601:5601", Metadata),
            ("2001::1", Special),
            ("2a00:1450::5efe:10.0.0.1", Special),
            ("2a00:1450::200:5efe:169.254.169.254", Metadata),
            ("2a00:1450::5efe:8.8.8.8", Public),
            ("fe80::5efe:10.0.0.1", LinkLocal),
            ("fd00:ec2::254", Metadata),
        ] {
            assert_eq!(class_of(text.parse().unwrap()), class, "{text}");
        }
    }

    /// The table once more, written by hand from the registry as one condition.
    fn is_global(a: [u8; 4]) -> bool {
        !(matches!(a[0], 0 | 10 | 127 | 224..)
            || a[0] == 100 && (64..128).contains(&a[1])
            || a[0] == 169 && a[1] == 254
            || a[0] == 172 && (16..32).contains(&a[1])
            || a[0] == 192 && a[1] == 168
            || a[0] == 198 && (a[1] == 18 || a[1] == 19)
            || matches!(a, [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 51, 100, _] | [203, 0, 113, _]))
            && a != [168, 63, 129, 16]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn public_is_what_the_registry_leaves(a in any::<[u8; 4]>()) {
            prop_assert_eq!(class_of(Ipv4Addr::from(a).into()) == Public, is_global(a));
        }

        /// At every border, a few addresses to either side.
        #[test]
        fn public_is_what_the_registry_leaves_at_borders(block in 0..V4_BLOCKS.len(), step in -2_i64..=2, first: bool) {
            let (block, _) = V4_BLOCKS[block];
            let edge = if first { block.network() } else { block.broadcast() };
            if let Ok(bits) = u32::try_from(i64::from(edge.to_bits()) + step) {
                let address = Ipv4Addr::from_bits(bits);
                prop_assert_eq!(class_of(address.into()) == Public, is_global(address.octets()), "{}", address);
            }
        }

        /// No wrapping makes a refused address public.
        #[test]
        fn wrapping_opens_nothing(a in any::<[u8; 4]>(), prefix in 0x2000_u16..0x4000) {
            let (high, low) = (u16::from_be_bytes([a[0], a[1]]), u16::from_be_bytes([a[2], a[3]]));
            let inner = class_of(Ipv4Addr::from(a).into());
            for wrapped in [
                [0, 0, 0, 0, 0, 0xffff, high, low],
                [0, 0, 0, 0, 0, 0, high, low],
                [0x64, 0xff9b, 0, 0, 0, 0, high, low],
                [0x64, 0xff9b, 1, 0, 0, 0, high, low],
                [0x2002, high, low, 0, 0, 0, 0, 1],
                [0x2001, 0, 0x808, 0x808, 0, 0, !high, !low],
                [prefix, 0, 0, 1, 0, 0x5efe, high, low],
                [prefix, 0, 0, 1, 0x200, 0x5efe, high, low],
            ] {
                let outer = class_of(Ipv6Addr::from(wrapped).into());
                prop_assert!(inner == Public || outer != Public, "{:?}", wrapped);
                prop_assert!(inner != Metadata || outer == Metadata, "{:?}", wrapped);
            }
        }
    }
}
