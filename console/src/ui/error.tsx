// What went wrong, the request's id, and a way to try again.
import { TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { isApiError } from '../api/error';
import { Button } from './button';
import { CopyButton } from './copy';

/** A sentence: begins with a capital, ends with a full stop. */
export function sentence(text: string): string {
  const trimmed = text.trim().slice(0, 600);
  if (!trimmed) return 'Something went wrong.';
  const begun = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}

export function messageOf(error: unknown): string {
  if (isApiError(error)) {
    const wait = error.retryAfter ? ` Try again in ${error.retryAfter} s.` : '';
    return sentence(error.message) + wait;
  }
  return sentence(error instanceof Error ? error.message : String(error));
}

export interface ErrorBannerProps {
  error: unknown;
  onRetry?: () => void;
  /** Before the message: "The list may be old." */
  lead?: ReactNode;
}

export function ErrorBanner({ error, onRetry, lead }: ErrorBannerProps) {
  const id = isApiError(error) ? error.requestId : null;
  return (
    <div className="banner" data-state="failed" role="alert">
      <TriangleAlert />
      <div className="grow">
        {lead && <>{lead} </>}
        {messageOf(error)}
        {id && <RequestId id={id} />}
      </div>
      {onRetry && (
        <Button size="sm" onPress={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function RequestId({ id }: { id: string }) {
  return (
    <span className="id request-id">
      {id}
      <CopyButton text={id} label="Copy the request's id" bare />
    </span>
  );
}
