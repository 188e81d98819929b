// No such sandbox: a way to find another.
import { Search } from 'lucide-react';
import { type FormEvent, useState } from 'react';
import { useLocation } from 'wouter';
import { plainName } from '../../format/plain';
import { Button, ButtonLink, EmptyState, Page, TextField } from '../../ui';
import styles from './sandbox.module.css';
import { strings } from './strings';

const words = strings.unknown;

export function Unknown({ id }: { id: string }) {
  const [text, setText] = useState(plainName(id, 64));
  const [, navigate] = useLocation();
  function find(event?: FormEvent): void {
    event?.preventDefault();
    navigate(`/sandboxes?${new URLSearchParams({ q: text.trim() })}`);
  }
  return (
    <Page title={words.title} narrow>
      <EmptyState
        title={words.title}
        action={
          <>
            <form className={styles.find} onSubmit={find}>
              <TextField
                label={words.search}
                hideLabel
                type="search"
                mono
                value={text}
                onChange={setText}
                before={<Search />}
                maxLength={200}
              />
              <Button look="primary" onPress={() => find()}>
                {words.find}
              </Button>
            </form>
            <ButtonLink href="/sandboxes" look="quiet">
              {words.all}
            </ButtonLink>
          </>
        }
      >
        {words.text}
      </EmptyState>
    </Page>
  );
}
