import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { Redirect, useLocation } from 'wouter';
import { createSandbox, isApiError, sessionQuery } from '../../api';
import { beginSession } from '../../session';
import { Button, ButtonLink, CodeBlock, ErrorBanner, Link, Loading, useDocumentTitle } from '../../ui';
import { exchangeCode } from './exchange';
import { Facts } from './facts';
import { Hut } from './hut';
import styles from './hut.module.css';
import { strings } from './strings';

type Step = { is: 'checking' } | { is: 'failed'; error: unknown } | { is: 'done' };

function useExchange(): Step {
  const [step, setStep] = useState<Step>({ is: 'checking' });
  useEffect(() => {
    const exchange = exchangeCode();
    if (!exchange) return setStep({ is: 'done' });
    let ended = false;
    exchange.then(
      (session) => {
        beginSession(session);
        if (!ended) setStep({ is: 'done' });
      },
      (error: unknown) => !ended && setStep({ is: 'failed', error }),
    );
    return () => {
      ended = true;
    };
  }, []);
  return step;
}

export default function Welcome() {
  useDocumentTitle(strings.title);
  const step = useExchange();
  if (step.is === 'checking') return <Loading label={strings.checking} />;
  if (step.is === 'failed') return <BadLink error={step.error} />;
  return <SignedIn />;
}

function SignedIn() {
  const [, navigate] = useLocation();
  const session = useQuery(sessionQuery());
  const create = useMutation({
    mutationFn: () => createSandbox({ templateID: 'base', timeout: 3600, autoPause: true }),
    onSuccess: (sandbox) => navigate(`/sandboxes/${sandbox.sandboxID}/terminal`, { replace: true }),
  });
  if (session.isPending) return <Loading label={strings.checking} />;
  if (isApiError(session.error) && session.error.code === 401) return <Redirect to="/sign-in" replace />;
  return (
    <Hut side={<Facts />} foot={<span>{strings.docs}</span>}>
      <div className="stack">
        <h1>{strings.up}</h1>
        <p className="muted lead">{strings.signedIn}</p>
      </div>
      <div className="stack">
        <Button look="primary" size="lg" block onPress={() => create.mutate()} isPending={create.isPending} autoFocus>
          {create.isPending ? strings.creating : strings.create}
        </Button>
        <ButtonLink href="/" size="lg" block>
          {strings.dashboard}
        </ButtonLink>
        {create.error && <ErrorBanner error={create.error} />}
      </div>
      <div className={`stack ${styles.end}`}>
        <span className="meta">{strings.shell}</span>
        <CodeBlock text="cabana shell" />
      </div>
    </Hut>
  );
}

function BadLink({ error }: { error: unknown }) {
  const used = isApiError(error) && error.code === 401;
  return (
    <Hut>
      <div className="stack">
        <h1>{strings.badTitle}</h1>
        <p className="muted lead">{strings.badText}</p>
      </div>
      <CodeBlock text="cabana login" />
      {!used && <ErrorBanner error={error} onRetry={() => location.reload()} />}
      <p>
        <Link href="/sign-in">{strings.otherwise}</Link>
      </p>
    </Hut>
  );
}
