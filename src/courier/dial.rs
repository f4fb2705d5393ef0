//! From a URL to a connection: the name is resolved here and nowhere else, and what was looked at is what is called.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tower::Service;

use crate::webhook::{NotDelivered, is_private};

/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Connects to what a URL names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialer {
    pub(super) private_addresses: bool,
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = NotDelivered;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, NotDelivered>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NotDelivered>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        Box::pin(dial(url, self.private_addresses))
    }
}

async fn dial(url: Uri, private_addresses: bool) -> Result<TokioIo<TcpStream>, NotDelivered> {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 });
    let unreachable = |reason: String| NotDelivered::Unreachable { host: host.clone(), reason };
    let found = lookup_host((host.as_str(), port)).await.map_err(|error| unreachable(error.to_string()))?;
    let addresses = allowed(&host, found.collect(), private_addresses)?;
    let mut last = "the name has no address".to_owned();
    for address in addresses.into_iter().take(ADDRESSES_MAX) {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(TokioIo::new(stream));
            }
            Err(error) => last = error.to_string(),
        }
    }
    Err(unreachable(last))
}

/// The addresses of a name, if all of them may be called. One private address among public ones is a trap, not a choice.
fn allowed(host: &str, found: Vec<SocketAddr>, private_addresses: bool) -> Result<Vec<SocketAddr>, NotDelivered> {
    let private = found.iter().map(SocketAddr::ip).find(|ip| !private_addresses && is_private(*ip));
    match private {
        Some(address) => Err(NotDelivered::Private { host: host.to_owned(), address }),
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[test]
    fn one_private_address_among_public_ones_is_refused() {
        let mixed = addresses(&["1.1.1.1:443", "10.0.0.7:443"]);
        let refused = allowed("hooks.example", mixed.clone(), false).expect_err("refused");
        assert!(refused.to_string().contains("`hooks.example` is 10.0.0.7, a private address"), "{refused}");
        assert!(refused.is_final());
        assert_eq!(allowed("hooks.example", mixed.clone(), true), Ok(mixed));
        let public = addresses(&["1.1.1.1:443", "[2606:4700::1111]:443"]);
        assert_eq!(allowed("hooks.example", public.clone(), false), Ok(public));
    }
}
