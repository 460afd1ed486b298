//! A server that takes its time, under a paused clock: what is waited for, for how long, and what is recorded of it.

use super::*;
use crate::backend::api::Held;
use tokio::time::sleep;

const LOAD: Duration = Duration::from_secs(30);
const UNLOAD: Duration = Duration::from_secs(60);

/// Agrees to everything at once, and does it later. So many orders to go are agreed to and not followed.
#[derive(Default)]
struct Slow {
    phase: Arc<Mutex<Option<ModelState>>>,
    lies: AtomicU64,
}

impl Slow {
    fn becomes(&self, state: Option<ModelState>, after: Duration) {
        *locked(&self.phase) = Some(ModelState::Moving);
        let phase = Arc::clone(&self.phase);
        tokio::spawn(async move {
            sleep(after).await;
            *locked(&phase) = state;
        });
    }
}

#[async_trait::async_trait]
impl Api for Slow {
    async fn bring(&self, name: &str, _: Gpus) -> Result<Brought, BackendError> {
        self.becomes(Some(ModelState::There), LOAD);
        Ok(name.into())
    }

    async fn release(&self, _: &str) -> Result<(), BackendError> {
        let lies = self.lies.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if lies.is_err() {
            self.becomes(None, UNLOAD);
        }
        Ok(())
    }

    async fn look(&self, _: &str) -> Result<ModelState, BackendError> {
        Ok(locked(&self.phase).clone().unwrap_or(ModelState::Absent))
    }

    async fn held(&self) -> Result<Held, BackendError> {
        Ok(Held::default())
    }

    async fn call(&self, _: &str, _: &Call) -> Result<Value, BackendError> {
        Ok(Value::Null)
    }
}

fn server(lies: u64) -> (Managed<Slow>, Arc<Mutex<Vec<LoadTime>>>) {
    let told: Arc<Mutex<Vec<LoadTime>>> = Arc::default();
    let tell = Arc::clone(&told);
    let record: LoadRecorder = Arc::new(move |timed: &LoadTime| locked(&tell).push(timed.clone()));
    let [connect, answer] = [Duration::from_secs(10); 2];
    let limits = HttpLimits { connect, answer, load: 10 * LOAD, unload: 10 * UNLOAD };
    let served = vec![ServedModel { name: "writer".to_owned(), memory_gb: 1.0 }];
    let api = Slow { lies: lies.into(), ..Slow::default() };
    (Managed::new(api, served, limits, record), told)
}

fn writer() -> Replica {
    Replica { model: ModelId(0), gpus: Gpus::new(0, 1) }
}

/// Found at the first look after it has happened, so many times: there is half a second between looks at most.
fn found_after(seconds: f64, expected: Duration, looks: f64) -> bool {
    (expected.as_secs_f64()..expected.as_secs_f64() + 0.51 * looks).contains(&seconds)
}

#[tokio::test(start_paused = true)]
async fn loads_and_unloads_are_recorded_with_all_that_they_take() {
    // One that was only claimed is asked for again.
    for (lies, unload, looks) in [(0, UNLOAD, 1.0), (1, UNLOAD + INSIST, 2.0)] {
        let (server, told) = server(lies);
        server.load(writer(), Span::ZERO).await.unwrap();
        server.unload(writer()).await.unwrap();
        assert_eq!(*locked(&server.api.phase), None, "it is over when the model is gone");
        let told = locked(&told);
        let [load, gone] = &told[..] else { panic!("{told:?}") };
        assert!(load.load && found_after(load.seconds, LOAD, 1.0), "{load:?}");
        assert!(!gone.load && found_after(gone.seconds, unload, looks), "{gone:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unload_that_is_only_claimed_is_given_up_at_its_limit() {
    let (server, told) = server(u64::MAX);
    server.load(writer(), Span::ZERO).await.unwrap();
    let since = Instant::now();
    let why = server.unload(writer()).await.unwrap_err().to_string();
    assert!(why.contains("still there after 600.0 s"), "{why}");
    assert!(found_after(since.elapsed().as_secs_f64(), 10 * UNLOAD, 1.0));
    assert_eq!(locked(&told).len(), 1, "only the load has happened");
}
