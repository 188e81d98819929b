//! Panics on request, for tests: each supervised task can be made to panic by its name, at whatever it waits for. Builds
//! without the feature `failpoints` have none of this.

#[cfg(feature = "failpoints")]
pub(crate) use on::Panics;

#[cfg(not(feature = "failpoints"))]
pub(crate) use off::Panics;

#[cfg(feature = "failpoints")]
mod on {
    use std::future::Future;

    use tokio::sync::broadcast;

    /// Hands requests to panic to the tasks of a supervisor.
    #[derive(Debug)]
    pub(crate) struct Panics(broadcast::Sender<String>);

    impl Panics {
        pub(crate) fn new() -> Self {
            Self(broadcast::channel(64).0)
        }

        /// Makes the running task of that name panic. Returns the number of tasks of this supervisor that heard it.
        pub(crate) fn inject(&self, task: &str) -> usize {
            self.0.send(task.to_owned()).unwrap_or(0)
        }

        /// Runs a task until it ends or has to panic.
        pub(crate) fn run<T, F: Future<Output = T>>(
            &self,
            name: &'static str,
            task: F,
        ) -> impl Future<Output = T> + use<T, F> {
            let mut requests = self.0.subscribe();
            async move {
                let asked = async {
                    loop {
                        match requests.recv().await {
                            Ok(asked) if asked == name => return,
                            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                        }
                    }
                };
                tokio::select! {
                    result = task => result,
                    () = asked => panic!("injected by a test"),
                }
            }
        }
    }
}

#[cfg(not(feature = "failpoints"))]
mod off {
    use std::future::Future;

    #[derive(Debug)]
    pub(crate) struct Panics;

    impl Panics {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn run<T, F: Future<Output = T>>(&self, _name: &'static str, task: F) -> F {
            task
        }
    }
}
